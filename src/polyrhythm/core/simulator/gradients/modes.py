"""The two ways to compute the gradients of virtual workers, for `Simulator(gradients=...)`, and what the simulator asks of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from polyrhythm.core.settings import checked
from polyrhythm.core.simulator.gradients.calls import ComputingProgram
from polyrhythm.core.simulator.gradients.combined import Combined, Resuming
from polyrhythm.errors import CompositionError

Wake = Callable[[Any, Any], None]


class GradientService(Protocol):
    """Computes the gradients of the programs of one run."""

    def begin(self, scheduler: Resuming) -> None:
        """The run begins."""

    def guard(self, wake: Wake) -> Wake:
        """What resumes a coroutine, so that one of a worker does not run before what its program computes."""

    def follow(self, program: ComputingProgram, model: nn.Module, refusal: str) -> None:
        """`program` trains `model`, which must be computed by itself where there is a `refusal`, a reason."""

    def charged(self, program: ComputingProgram, flops: int) -> None:
        """`program` has come to the charge of a step, of `flops` operations."""

    def communicates(self, program: ComputingProgram) -> None:
        """`program` waits for others, outside of the charge of a step."""

    def end(self) -> Mapping[str, str]:
        """The run is over: notes for its record."""


class GradientMode(Protocol):
    """A way to compute the gradients of virtual workers."""

    def service(self) -> GradientService:
        """That of one run."""


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Each virtual worker computes by itself, in the order of virtual time. The results are those of real processes, bit for bit."""

    def service(self) -> GradientService:
        return ComputedAlone()


@dataclass(frozen=True, slots=True)
@checked
class SideBySide:
    """Forward and backward passes of workers that compute at the same virtual time are computed together, on `threads` cores.

    Small models of the same code are stacked, and `torch.func.vmap` computes several workers at once; larger ones are computed each by
    itself, on the threads. Virtual times are those of `OneByOne`, and weights are equal within rounding; the number of threads changes
    nothing. 0 threads are as many as there are cores. Models that cannot be computed so are computed as by `OneByOne`, and the run's
    settings say why. Raises CompositionError for a number below 0.
    """

    threads: int = 0

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise CompositionError(f"SideBySide(threads={self.threads}) is no number of threads: give 1 or more, or 0 for all cores.")

    def service(self) -> GradientService:
        return Combined(self.threads or os.cpu_count() or 1)


class ComputedAlone:
    """Every program computes where it is."""

    __slots__ = ()

    def begin(self, scheduler: Resuming) -> None:
        """Nothing is prepared."""

    def guard(self, wake: Wake) -> Wake:
        return wake

    def follow(self, program: ComputingProgram, model: nn.Module, refusal: str) -> None:
        """Models are not followed."""

    def charged(self, program: ComputingProgram, flops: int) -> None:
        """Charges are not noted."""

    def communicates(self, program: ComputingProgram) -> None:
        """A program may always wait."""

    def end(self) -> Mapping[str, str]:
        return {}
