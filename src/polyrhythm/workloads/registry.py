"""The bundled workloads by name."""

from __future__ import annotations

from polyrhythm.errors import unknown
from polyrhythm.workloads.actors.a3c import CartPoleA3c, ChainA3c
from polyrhythm.workloads.actors.dqn import CartPoleDqn, ChainDqn, ChainQ
from polyrhythm.workloads.autoencoder_digits import AutoencoderDigits
from polyrhythm.workloads.chars import CharsGpt, CharsGpt5m
from polyrhythm.workloads.dbn_digits import DbnDigits
from polyrhythm.workloads.digits import DigitsCnn, DigitsMlp
from polyrhythm.workloads.gan_ring import GanRing
from polyrhythm.workloads.ising import Ising
from polyrhythm.workloads.lasso import Lasso
from polyrhythm.workloads.lda import Lda
from polyrhythm.workloads.markov import MarkovConvolution, MarkovMixer, MarkovTransformer
from polyrhythm.workloads.matrix_factorization import MatrixFactorization
from polyrhythm.workloads.rica_patches import RicaPatches
from polyrhythm.workloads.sparse_logistic import SparseLogistic
from polyrhythm.workloads.sparse_problems.graph_cuts import GraphCuts
from polyrhythm.workloads.sparse_problems.matrix_completion import MatrixCompletion
from polyrhythm.workloads.sparse_problems.sparse_svm import SparseSvm
from polyrhythm.workloads.word_senses import WordSenses
from polyrhythm.workloads.workload import Workload
from polyrhythm.workloads.xor import Xor

_KINDS: tuple[type[Workload], ...] = (
    Lda,
    DigitsCnn,
    DigitsMlp,
    CharsGpt,
    CharsGpt5m,
    Xor,
    Lasso,
    MatrixFactorization,
    Ising,
    SparseLogistic,
    MarkovTransformer,
    MarkovMixer,
    MarkovConvolution,
    DbnDigits,
    ChainA3c,
    ChainDqn,
    ChainQ,
    CartPoleA3c,
    CartPoleDqn,
    RicaPatches,
    GanRing,
    AutoencoderDigits,
    SparseSvm,
    MatrixCompletion,
    GraphCuts,
    WordSenses,
)
WORKLOADS = {kind.name: kind for kind in _KINDS}


def find(name: str) -> type[Workload]:
    """The workload called `name`; raises UnknownNameError with the nearest name."""
    if name not in WORKLOADS:
        raise unknown("workload", name, WORKLOADS)
    return WORKLOADS[name]
