"""What a run that other workers resume takes over, and what is lost: sentences for its record."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.protocols.traits import LOCAL, Payload
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy


def resumed_by_others(strategy: Strategy, before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Sentences about a checkpoint that the workers `before` have written, and those of `now` resume; none where they are the same."""
    left, joined = [name for name in before if name not in now], [name for name in now if name not in before]
    if not left and not joined:
        return []
    found = [f"Resumed by {len(now)} worker{'s' * (len(now) > 1)}, where {len(before)} had written it."]
    found += _left(strategy, now[0], ", ".join(left)) if left else []
    found += [f"{', '.join(joined)} begin{'s' * (len(joined) == 1)} with the state of {before[0]}."] if joined else []
    if any(level.agreement.local.hooks.mixing or level.agreement.local.hooks.settle for level in _levels(strategy)):
        found.append("The state of the local rule begins anew at all workers.")
    return found


def _left(strategy: Strategy, first: str, left: str) -> list[str]:
    levels = _levels(strategy)
    inherited = ["what codecs kept to send later"] if any(level.agreement.codec.traits.keeps for level in levels) else []
    inherited += ["the steps since the last exchange"] if any(level.payload is Payload.UPDATE for level in levels) else []
    lost = ["the weights"] if any(level.payload is Payload.WEIGHTS for level in levels) else []
    lost += ["the state of its optimizer"] if any(level.payload in LOCAL for level in levels) else []
    found = [f"{first} has inherited of {left}: {' and '.join(inherited)}."] if inherited else [f"{left} left nothing to send."]
    return [*found, f"Lost with {left}: {', '.join([*lost, 'random streams and variables of its own'])}."]


def _levels(strategy: Strategy) -> list[Exchange]:
    return [level for _, exchange in strategy.exchanges for level in exchange.levels]
