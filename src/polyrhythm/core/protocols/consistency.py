"""Protocol of consistencies: when a worker exchanges, when it must read weights, and when it may proceed.

Members are in `consistency`. Workers ask before and after each step; servers and clock tables ask before they merge or respond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.controller import Controls
from polyrhythm.core.protocols.traits import ConsistencyTraits

_FAR = 2**40


def _always(*situation: Any) -> bool:
    return True


def _one(workers: int) -> int:
    return 1


class Moment(Protocol):
    """When it is asked at a worker whether it exchanges: after the step `clock`, under the controller's decisions so far."""

    @property
    def clock(self) -> int: ...

    @property
    def controls(self) -> Controls: ...


@dataclass(frozen=True, slots=True)
class Conditions:
    """When workers exchange and wait. The defaults are those of asynchronous steps.

    Clocks count a worker's own steps from 1; `slowest` is the least merged clock of all workers. Law: a worker never proceeds beyond its
    bound, and the slowest is never held up.
    """

    exchanges: Callable[[Moment], bool] = _always
    """True if a worker that has just taken the step of the moment's clock exchanges."""

    takes_part: Callable[[int, int, Group], bool] = _always
    """`takes_part(clock, rank, group)`: true if the worker of `rank` in `group` takes its step `clock`; else it skips the step: it computes
    and sends nothing. Called where the traits have `chooses`. Steps between two exchanges are taken by the same workers, as many as the
    quorum."""

    pushes: Callable[[int], bool] = _always
    """`pushes(clock)`: true if the contribution is pushed to the servers at once; else it is added to the next. Only where workers do not
    wait."""

    quorum: Callable[[int], int] = _one
    """`quorum(workers)`: the number of contributions that are merged at once."""

    may_proceed: Callable[[int, float], bool] = _always
    """`may_proceed(mine, slowest)`: true if a worker that has sent its step `mine` may proceed."""

    must_read: Callable[[int, float], bool] = _always
    """`must_read(mine, known)`: true if a worker at `mine`, to which `known` was last reported as the slowest, must request fresh weights.
    It does so more often where it cannot compute the effect that its contributions have (`Agreement.previews`)."""

    may_merge: Callable[[float, float], bool] = _always
    """`may_merge(clock, mine)`: true if a worker at `mine` may already merge a contribution that a peer sent at `clock`."""

    @property
    def waits(self) -> bool:
        """True if a worker that is far ahead of the slowest waits for it."""
        return not self.may_proceed(_FAR, 0)


class Consistency(Protocol):
    """Decides when workers exchange and wait. Settings are frozen."""

    @property
    def traits(self) -> ConsistencyTraits:
        """The properties that composition checks."""

    @property
    def conditions(self) -> Conditions:
        """The conditions, for the whole run: who asks at every step keeps them."""
