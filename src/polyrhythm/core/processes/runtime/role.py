"""The role of an actor in its run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """An actor's name, its run's secret and seed, and its device."""

    name: str
    secret: bytes
    seed: int = 0
    device: str = "cpu"
