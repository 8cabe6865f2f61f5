"""Calls of models that virtual workers make in training, their kinds, and groups of calls that are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

from polyrhythm.core.simulator.actors import BlockingProgram, VirtualActor

T_co = TypeVar("T_co", covariant=True)


class Computation(Protocol[T_co]):
    """What is computed now, or when its result is asked for."""

    def result(self) -> T_co:
        """Wait for the result. Raises what the computation raises."""


class ComputingProgram(BlockingProgram, Protocol):
    """A program as one that computes gradients knows it.

    `parked` is true while it waits for them, `aside` while it computes what is no training. `foreseen` are the seconds of the step that it
    computes, which were charged when its forward pass began.
    """

    parked: bool
    aside: int
    foreseen: float | None

    @property
    def flops(self) -> int:
        """The operations counted since the last charge."""

    @property
    def can_wait(self) -> bool:
        """True if it may wait where it is."""

    def foresee(self, flops: int) -> float:
        """Charge the step that is under way, which takes `flops` operations more. Returns its seconds."""

    def park(self) -> Any:
        """The program waits, and no virtual time passes; returns what it is continued with."""


@dataclass(slots=True, eq=False)
class CallKind:
    """Calls with the same code and the same shapes. `reason` says why they are computed one by one; "" where they are not.

    `flops` are the operations from such a call to the end of its step, `most` how many of them are computed at once, and `checked` is true
    once such a group was compared with single calls. `apart` says why they are not stacked.
    """

    reason: str = "a step of this kind was not completed"
    flops: int = 0
    most: int = 1
    checked: bool = False
    apart: str = ""


NO_BACKWARD = "no backward pass followed before its step"
"""The reason of a first call until its backward pass is over."""


@dataclass(slots=True, eq=False)
class FirstCall:
    """The first call of a kind, which is computed as always, to see whether further ones can be computed together."""

    program: ComputingProgram
    kind: CallKind
    before: int
    reason: str = NO_BACKWARD


@dataclass(slots=True, eq=False)
class ModelSeat:
    """A model that a program trains, with all its `parameters` and `modules`; `trained` are those whose
    gradients are wanted in the present call.

    `refusal` is why it is never computed with others. `code` is equal for models that may be stacked, None for one that may not be.
    """

    program: ComputingProgram
    model: nn.Module
    refusal: str
    parameters: Sequence[nn.Parameter]
    modules: Sequence[nn.Module]
    code: Hashable
    nbytes: int
    trained: Sequence[nn.Parameter] = ()
    called: bool = False


@dataclass(slots=True, eq=False)
class ModelCall:
    """One call of a model in training. `since` is when it began, in virtual time, and `seconds` what its step was charged.

    `gradients` are those of its outputs, once the program's backward pass has come to them.
    """

    seat: ModelSeat
    kind: CallKind
    forward: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    since: float
    seconds: float
    group: CallGroup = field(init=False)
    gradients: Sequence[Tensor] | None = None
    settled: bool = False

    @property
    def program(self) -> ComputingProgram:
        return self.seat.program

    @property
    def actor(self) -> VirtualActor:
        return self.seat.program.actor


@dataclass(slots=True, eq=False)
class Outputs:
    """What the calls of a group return: `leaves` of all calls, or of the only one; `shape` makes a call's value of its own leaves."""

    leaves: Sequence[Tensor]
    trained: Sequence[Tensor]
    shape: Callable[[Sequence[Tensor]], Any]
    stacked: bool

    def of(self, place: int) -> Sequence[Tensor]:
        """The leaves of one call."""
        return [leaf[place] for leaf in self.leaves] if self.stacked else self.leaves


@dataclass(slots=True, eq=False)
class CallGroup:
    """Calls of one kind, which are computed at once."""

    kind: CallKind
    calls: list[ModelCall] = field(default_factory=list)
    single: Sequence[Outputs] = ()
    """Those of each call by itself, of the first group of a kind, with which it is compared."""
    outputs: Computation[Outputs] | None = None
    gradients: Computation[Sequence[Sequence[Tensor | None]]] | None = None
