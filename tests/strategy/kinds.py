"""Systems of one kind differ in their codec, their algorithm or their settings alone; the laws about these are tested elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from polyrhythm import systems
from polyrhythm.core.strategy.strategy import Strategy


def traits(strategy: Strategy) -> set[tuple[object, ...]]:
    """What distinguishes its exchanges: topologies, rules for local steps, and with each payload who waits and what servers do."""
    found = set[tuple[object, ...]]()
    for _, exchange in strategy.exchanges:
        agreement, topology = exchange.agreement, exchange.topology
        found |= {
            ("topology", type(topology).__name__),
            ("local", type(agreement.local).__name__),
            ("pattern", topology.traits, agreement.payload),
            ("order", agreement.payload, exchange.order_matters),
            ("loss", agreement.payload, exchange.tolerates_loss),
            ("rule", agreement.payload, agreement.rule is not None),
        }
    return found


def _ways(strategy: Strategy) -> set[tuple[object, ...]]:
    """How workers communicate in its exchanges, each with the payload."""
    return {(exchange.topology.traits.how, exchange.agreement.payload) for _, exchange in strategy.exchanges}


def _covering(traits: Callable[[Strategy], set[tuple[object, ...]]]) -> list[str]:
    """Systems of which each has the most traits that those before it have not, until all are there."""
    of_each = {name: traits(systems.find(name)) for name in systems.SYSTEMS}
    missing, chosen = set[tuple[object, ...]]().union(*of_each.values()), list[str]()
    while missing:
        chosen.append(max(of_each, key=lambda name: len(of_each[name] & missing)))
        missing -= of_each[chosen[-1]]
    return chosen


REPRESENTATIVE = _covering(traits)
"""Few systems that together have every trait that one has."""
FEWEST = _covering(_ways)
"""Fewer, that together communicate in every way and send all that is sent: for what takes long."""


def sampled(names: Iterable[str]) -> list[Any]:
    """`names` as parameters of a test: the cover in every turn, other representative systems in turns, the rest in the long tests."""
    return [_in_turns(name, REPRESENTATIVE) for name in names]


def fewest(names: Iterable[str]) -> list[Any]:
    """`names` as `sampled` gives them, with fewer systems outside of the long tests."""
    return [_in_turns(name, FEWEST) for name in names]


def _in_turns(name: str, often: Sequence[str]) -> Any:
    return pytest.param(name, marks=pytest.mark.cover if name in FEWEST else [] if name in often else pytest.mark.long)
