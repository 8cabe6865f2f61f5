"""Systems that are equal in lockstep: those whose workers have the same weights after each step, up to rounding, however they exchange.

The planner lets them share one curve of samples, and each needs only a few steps for its seconds and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from polyrhythm.core.protocols.buffers import Buffers
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.controller import Fixed
from polyrhythm.core.protocols.local import LocalRule, PlainSteps
from polyrhythm.core.protocols.merge import Merge, keeps_rates
from polyrhythm.core.protocols.shuffle import Shuffle
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy

_LOOKED_AT = 256
"""Two rules that let workers exchange after the same of so many steps are taken to be equal."""


@dataclass(frozen=True, slots=True)
class Lockstep:
    """What decides the weights of a strategy whose workers exchange together, and exact sums.

    Two strategies of equal `Lockstep`, with as many workers and the same settings and seed, have equal weights after each step, up to
    rounding. Workers exchange after the steps `clocks`, of the first few hundred: gradients where `sums_gradients`, else what their own
    optimizers did since. `merge` is None where the user's optimizer steps on the mean.
    """

    sums_gradients: bool
    clocks: tuple[int, ...]
    merge: Merge | None
    local: LocalRule
    shuffle: Shuffle
    buffers: Buffers

    @staticmethod
    def of(strategy: Strategy, workers: int) -> Lockstep | None:
        """The class of a strategy with so many workers; None where what they do depends on more than this."""
        if strategy.shuffle.weighs or strategy.shuffle.takes:
            return None
        classes = set[Lockstep | None]()
        for _, exchange in strategy.exchanges:
            if not exchange.ends_alike or exchange.order_matters:
                return None
            levels = [_of_level(level, strategy, workers) for level in exchange.levels]
            scaled = any(each is None or each.merge is not None for each in levels[:-1])
            if len(levels) > 1 and (scaled or not all(each is not None and each.every_step for each in levels)):
                return None  # groups have their own scales, or what their members exchange more often
            classes.add(levels[-1])
        return classes.pop() if len(classes) == 1 else None

    @property
    def every_step(self) -> bool:
        """True if gradients are summed at each step: then the curve depends on all samples of a step, and not on who computed which."""
        return self.sums_gradients and len(self.clocks) == _LOOKED_AT


def _of_level(level: Exchange, strategy: Strategy, workers: int) -> Lockstep | None:
    """The class of a strategy by one level of an exchange."""
    if not (_exact(level) and _together(level, workers)):
        return None
    agreed = level.agreement
    clocks = tuple(clock for clock in islice(level.clocks(workers), _LOOKED_AT) if clock <= _LOOKED_AT)
    if agreed.payload.is_gradient:
        if level.local != PlainSteps() or len(clocks) < _LOOKED_AT:
            return None
    elif agreed.payload is not Payload.UPDATE or Capability.MEAN not in level.topology.traits.provides:
        return None
    merge = None if level.merge.traits.averages and keeps_rates(level.merge, workers) else level.merge
    return Lockstep(agreed.payload.is_gradient, clocks, merge, level.local, strategy.shuffle, strategy.buffers)


def _exact(level: Exchange) -> bool:
    """True if sums are those of the values themselves."""
    codec, topology = level.codec.traits, level.topology.traits
    changed = codec.lossy or codec.transforms or codec.keeps or codec.divides or codec.recodes
    return not (changed or topology.rounds or topology.late or topology.replicas_differ)


def _together(level: Exchange, workers: int) -> bool:
    """True if all contributions of an exchange are merged at once, and nobody continues before."""
    traits, rule = level.consistency.traits, level.agreement.conditions
    if traits.chooses or traits.head_start.steps or level.controller != Fixed():
        return False
    return level.workers(workers) == 1 or (rule.quorum(workers) == workers and not rule.may_proceed(1, 0))
