"""States within a state: a wrapper keeps the states of its inner codecs under separate prefixes.

Codecs and controllers that wrap others use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from polyrhythm.core.tensors import State


def under(prefix: str, state: State) -> State:
    """`state` with every name put under `prefix`."""
    return {f"{prefix}/{name}": tensor for name, tensor in state.items()}


def divide(state: State, prefixes: Iterable[str]) -> dict[str, State]:
    """The states that lie under each of `prefixes`, found in one loop; empty where there are none."""
    result: dict[str, State] = {prefix: {} for prefix in prefixes}
    for name, tensor in state.items():
        prefix, _, rest = name.partition("/")
        while rest and prefix not in result:
            more, _, rest = rest.partition("/")
            prefix = f"{prefix}/{more}"
        if prefix in result:
            result[prefix][rest] = tensor
    return result


def within(prefix: str, state: State, change: Callable[[State], State]) -> State:
    """`state` with a change of the state that lies under `prefix`."""
    others = {name: tensor for name, tensor in state.items() if not name.startswith(f"{prefix}/")}
    return {**others, **under(prefix, change(divide(state, [prefix])[prefix]))}


def zeros(state: State, *names: str) -> State:
    """Zeros in place of the tensors of these `names`."""
    return {name: torch.zeros_like(state[name]) for name in names}
