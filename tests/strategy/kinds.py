"""Systems of one kind differ in their codec, their algorithm or their settings alone; the laws about these are tested elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from polyrhythm import systems
from polyrhythm.strategy.strategy import Strategy


def kind(strategy: Strategy) -> tuple[object, ...]:
    """With which patterns and payloads it exchanges, who waits, and what servers do."""
    return tuple(
        (
            exchange.agreement.payload,
            exchange.topology.traits,
            type(exchange.topology).__name__,
            exchange.order_matters,
            exchange.tolerates_loss,
            exchange.agreement.rule is not None,
            exchange.agreement.local.traits,
        )
        for _, exchange in strategy.exchanges
    )


def _first_of_each() -> set[str]:
    first: dict[tuple[object, ...], str] = {}
    for name in systems.SYSTEMS:
        first.setdefault(kind(systems.find(name)), name)
    return set(first.values())


REPRESENTATIVE = _first_of_each()
"""One system of each kind."""


def sampled(names: Iterable[str]) -> list[Any]:
    """`names` as parameters of a test; those that are not the first of their kind are left to the long tests."""
    return [name if name in REPRESENTATIVE else pytest.param(name, marks=pytest.mark.long) for name in names]
