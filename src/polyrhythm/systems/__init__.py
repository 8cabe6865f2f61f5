"""The published systems, each a composition of pieces with its citation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.systems.asynchronous import downpour, easgd, softsync, ssp, strom
from polyrhythm.systems.gossip import gossipgrad
from polyrhythm.systems.local import diloco, sparknet
from polyrhythm.systems.synchronous import allreduce, onebit, single, tree

SYSTEMS: dict[str, Callable[..., Strategy]] = {
    preset.__name__: preset
    for preset in (single, allreduce, tree, downpour, ssp, softsync, sparknet, easgd, onebit, strom, gossipgrad, diloco)
}


def find(name: str, **options: Any) -> Strategy:
    """The strategy of the system `name`, with its paper's settings where `options` do not say otherwise."""
    if name not in SYSTEMS:
        raise unknown("system", name, SYSTEMS)
    try:
        return SYSTEMS[name](**options)
    except TypeError as error:
        accepted = ", ".join(SYSTEMS[name].__annotations__.keys() - {"return"}) or "none"
        raise CompositionError(f"{name} does not take these options ({error}); it has: {accepted}.") from None


__all__ = ["SYSTEMS", "find", *SYSTEMS]
