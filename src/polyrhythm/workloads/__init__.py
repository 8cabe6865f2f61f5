"""Training functions that come with the package, readers of data sets, and the loading of JOBs."""

from polyrhythm.core.job_files.worker import WorkloadWorker
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
from polyrhythm.workloads.load import load_workload
from polyrhythm.workloads.matrix_factorization import MatrixFactorization
from polyrhythm.workloads.registry import WORKLOADS, find
from polyrhythm.workloads.rica_patches import RicaPatches
from polyrhythm.workloads.sparse_logistic import SparseLogistic
from polyrhythm.workloads.sparse_problems.graph_cuts import GraphCuts
from polyrhythm.workloads.sparse_problems.matrix_completion import MatrixCompletion
from polyrhythm.workloads.sparse_problems.sparse_svm import SparseSvm
from polyrhythm.workloads.word_senses import WordSenses
from polyrhythm.workloads.workload import Metric, Workload
from polyrhythm.workloads.xor import Xor

__all__ = [
    "WORKLOADS",
    "AutoencoderDigits",
    "CartPoleA3c",
    "CartPoleDqn",
    "ChainA3c",
    "ChainDqn",
    "ChainQ",
    "CharsGpt",
    "CharsGpt5m",
    "DbnDigits",
    "DigitsCnn",
    "DigitsMlp",
    "GanRing",
    "GraphCuts",
    "Ising",
    "Lasso",
    "Lda",
    "MatrixCompletion",
    "MatrixFactorization",
    "Metric",
    "RicaPatches",
    "SparseLogistic",
    "SparseSvm",
    "WordSenses",
    "Workload",
    "WorkloadWorker",
    "Xor",
    "find",
    "load_workload",
]
