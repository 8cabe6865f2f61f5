"""A check that the object given for an axis can be a piece at all."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.errors import CompositionError

_ESSENTIAL: Mapping[str, str] = {
    "consistency": "conditions",
    "topology": "channel",
    "codec": "aggregate",
    "merge": "traits",
    "local": "hooks",
    "controller": "decide",
    "shuffle": "feed",
    "buffers": "keeper",
    "exchange": "among",
    "selection": "takes",
}
"""An attribute that every piece of an axis has."""


def require_piece(axis: str, given: object, example: object) -> None:
    """Raise CompositionError where `given` is the name of a piece, its class, or something else."""
    if isinstance(given, (str, type)):
        called = given if isinstance(given, str) else given.__name__
        raise CompositionError(f"{axis}={called!r} is a name, not a piece: give the piece itself, such as {example!r}.")
    if getattr(type(given), _ESSENTIAL[axis], None) is None:
        raise CompositionError(f"{axis}={given!r} cannot be used as {axis}: give a piece, such as {example!r}.")
