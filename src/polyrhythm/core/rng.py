"""Random streams by name, so that a new draw in one place changes no draw in another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from polyrhythm.core.streams import derive, stream

__all__ = ["Apart", "derive", "export", "generator", "restore", "seed_everything", "stream", "unmoved"]


def generator(seed: int, *path: str | int) -> torch.Generator:
    """A torch generator for the stream `path`."""
    return torch.Generator().manual_seed(derive(seed, *path))


def seed_everything(seed: int, *path: str | int) -> None:
    """Seed the global generators of torch, numpy and `random` with the stream `path`, as a worker does before the user's code."""
    value = derive(seed, *path)
    if torch.accelerator.is_available():
        torch.manual_seed(value)
    else:  # the same seeds, but torch.manual_seed records a call stack for each kind of device that may be used later
        torch.default_generator.manual_seed(value)
    np.random.seed(value % 2**32)
    random.seed(value)


@contextmanager
def unmoved() -> Iterator[None]:
    """Restore the global generators of torch (on every device in use), numpy and `random` afterwards."""
    states = _states()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        _set_states(states)
        if devices:
            torch.cuda.set_rng_state_all(devices)


def export() -> dict[str, Any]:
    """The states of the global generators of torch (on every device in use), numpy and `random`, as a `trees.StateTree`."""
    of_torch, of_numpy, of_random = _states()
    words = {**of_numpy["state"], "key": torch.from_numpy(of_numpy["state"]["key"].astype(np.int64))}
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return {"torch": of_torch, "numpy": {**of_numpy, "state": words}, "random": of_random, "devices": devices}


def restore(state: dict[str, Any]) -> None:
    """Set the global generators to the states that `export` gave."""
    of_numpy = state["numpy"]
    words = {**of_numpy["state"], "key": of_numpy["state"]["key"].numpy().astype(np.uint32)}
    _set_states((state["torch"], {**of_numpy, "state": words}, state["random"]))
    if state["devices"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["devices"])


class Apart:
    """`with apart:` runs code that draws from the global generators of torch, numpy and `random` with separate states.

    These are seeded with `seed` at first and continue from one use to the next; outside, the generators are as if the code had not run.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._inner: tuple[Any, ...] | None = None
        self._outer: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        self._outer = _states()
        if self._inner is None:
            torch.default_generator.manual_seed(self._seed)
            np.random.seed(self._seed % 2**32)
            random.seed(self._seed)
        else:
            _set_states(self._inner)

    def __exit__(self, *problem: object) -> None:
        self._inner = _states()
        _set_states(self._outer)


def _states() -> tuple[Any, ...]:
    return torch.default_generator.get_state(), np.random.get_state(legacy=False), random.getstate()


def _set_states(states: tuple[Any, ...]) -> None:
    torch.default_generator.set_state(states[0])
    np.random.set_state(states[1])
    random.setstate(states[2])
