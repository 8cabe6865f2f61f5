"""Gibbs sampling of an Ising model by workers that see each other's spins late."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.ising_ring import IsingRing, measured
from polyrhythm.workloads.workload import Metric, Sizes, require_not_negative, require_positive

_FEWEST = 5
"""With fewer spins, one spin would be a neighbour of another on both sides, with two couplings."""


@dataclass(frozen=True, slots=True)
class Ising:
    """`chains` independent Gibbs samplers of `spins` spins, run together for `sweeps` sweeps (HOGWILD!-Gibbs; Daskalakis et al., 2018).

    The spins are the rows of a table, the chains its columns. They are dealt to the workers in blocks. A step reads all spins, draws
    `batch_size` of the worker's own, one after another, given the others as they were read, and adds the changes: asynchronous Gibbs
    sampling, in which reads are old by as many steps as the system's consistency allows, under `ssp` by its slack. A sweep draws each of
    them once, in random order. (In the paper processors draw any spin, in shared memory; with owners no two write one.) Spins begin at 1,
    and the measured chains are those that the servers hold at one moment. `influence` bounds the total influence of a spin's neighbours
    on it; below 1 Dobrushin's condition holds.
    """

    spins: int = 50
    chains: int = 16_384
    sweeps: int = 40
    batch_size: int = 5
    influence: float = 0.8
    field: float = 0.5

    name: ClassVar[str] = "ising"
    description: ClassVar[str] = "asynchronous Gibbs sampling of 50 spins, on a table; no gradients"
    metric: ClassVar[Metric] = Metric("marginal_error", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name, spins=self.spins, chains=self.chains, sweeps=self.sweeps, batch_size=self.batch_size, influence=self.influence
        )
        if self.spins < _FEWEST:
            raise WorkloadError(f"{self.name} was given spins={self.spins}: a ring of neighbours on two sides takes {_FEWEST} or more.")
        if not self.influence < 1:
            raise WorkloadError(f"{self.name} was given influence={self.influence}: Dobrushin's condition needs less than 1.")
        require_not_negative(self.name, field=self.field)

    @property
    def sizes(self) -> Sizes:
        """The samples are the spins that are drawn."""
        return Sizes(self.spins, self.spins, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Sample once, as one of the workers."""
        ring = IsingRing.drawn(self.spins, self.influence, self.field, worker.seed)
        table = worker.table("spins", rows=self.spins, columns=self.chains, initial=torch.ones(self.spins, self.chains))
        worker.evaluate(errors(ring))
        blocks = torch.tensor_split(torch.arange(self.spins), worker.workers)
        steps = math.ceil(len(blocks[0]) / self.batch_size)  # in a sweep; the first block is the largest
        order, draw = rng.stream(worker.seed, "ising", "order", worker.rank), rng.generator(worker.seed, "ising", "draws", worker.rank)

        for _ in range(self.sweeps):
            shuffled = blocks[worker.rank][torch.from_numpy(order.permutation(len(blocks[worker.rank])))]
            for batch in torch.tensor_split(shuffled, steps):
                seen = table.get()
                before = seen[batch].clone()
                for spin in batch.tolist():
                    seen[spin] = drawn(ring, seen, spin, draw)
                worker.count(len(batch))
                table.inc(batch, seen[batch] - before)
                table.clock()


def drawn(ring: IsingRing, seen: Tensor, spin: int, draw: torch.Generator) -> Tensor:
    """New values (chains,) of `spin`, given all others (n, chains)."""
    neighbours, strengths = ring.neighbours(spin)
    field = float(ring.fields[spin]) + strengths @ seen[neighbours]
    up = torch.rand(field.shape, generator=draw) < torch.sigmoid(2 * field)
    return up * 2.0 - 1.0


def errors(ring: IsingRing) -> Callable[[Tensor], dict[str, float]]:
    """A function that measures spins (n, chains): the largest error of a P(s_i = 1), and the mean error of neighbours' E[s_i s_j]."""
    up, pairs = ring.exact()

    def evaluate(spins: Tensor) -> dict[str, float]:
        found_up, found_pairs = measured(spins)
        return {"marginal_error": (found_up - up).abs().max().item(), "pair_error": (found_pairs - pairs).abs().mean().item()}

    return evaluate
