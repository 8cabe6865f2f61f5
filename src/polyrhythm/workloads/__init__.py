"""Training functions that come with the package, readers of data sets, and the loading of JOBs."""

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.actors.a3c import CartPoleA3c, ChainA3c
from polyrhythm.workloads.actors.dqn import CartPoleDqn, ChainDqn, ChainQ
from polyrhythm.workloads.chars import CharsGpt, CharsGpt5m
from polyrhythm.workloads.dbn_digits import DbnDigits
from polyrhythm.workloads.digits import DigitsCnn, DigitsMlp
from polyrhythm.workloads.ising import Ising
from polyrhythm.workloads.lasso import Lasso
from polyrhythm.workloads.load import load_workload
from polyrhythm.workloads.matrix_factorization import MatrixFactorization
from polyrhythm.workloads.registry import WORKLOADS, find
from polyrhythm.workloads.sparse_logistic import SparseLogistic
from polyrhythm.workloads.workload import Metric, Workload
from polyrhythm.workloads.xor import Xor

__all__ = [
    "WORKLOADS",
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
    "Ising",
    "Lasso",
    "MatrixFactorization",
    "Metric",
    "SparseLogistic",
    "Workload",
    "WorkloadWorker",
    "Xor",
    "find",
    "load_workload",
]
