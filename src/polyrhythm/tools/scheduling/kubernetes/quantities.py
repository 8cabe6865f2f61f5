"""Amounts as Kubernetes writes them: "500m", "2Gi"."""

from __future__ import annotations

import re

from polyrhythm.errors import CompositionError
from polyrhythm.launchers.manifest import Manifest

_POWERS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTPE", 1)}
_SHAPE = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")


def quantity(given: object) -> float:
    """The number. Raises CompositionError for what is none."""
    found = _SHAPE.fullmatch(str(given))
    unit = {**_POWERS, **_BINARY}.get(found[2]) if found else None
    if found is None or unit is None:
        raise CompositionError(f"{given!r} is no quantity of Kubernetes: write it as 4, 500m or 2Gi.")
    return float(found[1]) * unit


def requested(pod: Manifest, resource: str) -> float:
    """The amount of a resource that a pod asks for: the sum over its containers, or more where one that runs before them needs more."""
    spec = pod["spec"]
    return max(
        [sum(_own(each, resource) for each in spec["containers"]), *(_own(each, resource) for each in spec.get("initContainers", []))]
    )


def _own(container: Manifest, resource: str) -> float:
    resources = container.get("resources", {})
    given = resources.get("requests", {}).get(resource) or resources.get("limits", {}).get(resource)
    return 0.0 if given is None else quantity(given)
