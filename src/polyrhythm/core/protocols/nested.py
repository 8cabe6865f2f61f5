"""States within a state: a wrapper keeps the states of its inner codecs under separate prefixes.

Codecs and controllers that wrap others use it.
"""

from __future__ import annotations

from collections.abc import Iterable

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
