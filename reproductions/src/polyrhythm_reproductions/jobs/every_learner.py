"""Every learner that is not, or not only, a network trained by backward(): short runs, and the systems that each is tried under."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.workloads import (
    AutoencoderDigits,
    ChainA3c,
    ChainDqn,
    DbnDigits,
    GanRing,
    GraphCuts,
    Lda,
    MatrixCompletion,
    RicaPatches,
    SparseSvm,
    WordSenses,
    Workload,
)
from polyrhythm_reproductions.jobs.whole_digits import WholeDigits

_ANY = ("allreduce", "downpour", "ssp", "sparknet")
_SERVED = ("ssp", "downpour", "sandblaster")
_SPARSE = ("hogwild", "ssp", "sparknet")
_TABLES = "its counts and vectors are in tables, which servers keep: systems without servers refuse it"
_VECTORS = "the vectors of L-BFGS lie at servers: systems without servers refuse it"
_ROWS = "its gradients are sparse: systems that sum gradients refuse it"


@dataclass(frozen=True, slots=True)
class Learner:
    """A `job` that takes a second or so, three or more `systems` that train it, and `why` others, such as `allreduce`, do not."""

    job: Workload
    systems: tuple[str, ...]
    why: str = ""


LEARNERS: dict[str, Learner] = {
    "LightLDA": Learner(Lda(topics=6, sweeps=6, documents=200, length=40, vocabulary=150, blocks=4), _SERVED, _TABLES),
    "word senses": Learner(WordSenses(documents=200, vocabulary=72, topics=3, planted=3, epochs=4, alpha=100.0), _SERVED, _TABLES),
    "deep belief net": Learner(DbnDigits(epochs=1, fine_epochs=1, batch_size=64), _ANY),
    "RICA": Learner(RicaPatches(patches=480, epochs=1, batch_size=10), _ANY),
    "L-BFGS": Learner(WholeDigits(steps=2), _SERVED, _VECTORS),
    "A3C": Learner(ChainA3c(frames=1600), ("hogwild", "downpour", "ssp", "allreduce")),
    "DQN": Learner(ChainDqn(frames=1600), ("hogwild", "downpour", "ssp", "allreduce")),
    "GAN": Learner(GanRing(samples=600, epochs=1, batch_size=10, width=16), _ANY),
    "auto-encoder": Learner(AutoencoderDigits(epochs=1, batch_size=24), _ANY),
    "sparse SVM": Learner(SparseSvm(samples=480, epochs=1, batch_size=10), _SPARSE, _ROWS),
    "matrix completion": Learner(MatrixCompletion(ratings=528, epochs=1, batch_size=10), _SPARSE, _ROWS),
    "graph cuts": Learner(GraphCuts(nodes=90, edges=480, terminals=3, epochs=1, batch_size=10), _SPARSE, _ROWS),
}
"""The learners of the lists, by name."""
