"""A check that the object given for an axis can be a piece at all."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.core.protocols.traits import CodecTraits, ConsistencyTraits, LocalTraits, MergeTraits, TopologyTraits
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
_TRAITS: Mapping[str, type] = {
    "consistency": ConsistencyTraits,
    "topology": TopologyTraits,
    "codec": CodecTraits,
    "merge": MergeTraits,
    "local": LocalTraits,
}


def require_piece(axis: str, given: object, example: object) -> None:
    """Raise CompositionError where `given` is the name of a piece, its class, or something else, or declares too little."""
    if isinstance(given, str):
        raise CompositionError(f"{axis}={given!r} is a name, not a piece: give the piece itself, such as {example!r}.")
    if isinstance(given, type):
        raise CompositionError(f"{axis}={given.__name__} is a class, not a piece: make one of it, as in {example!r}.")
    if getattr(type(given), _ESSENTIAL[axis], None) is None:
        raise CompositionError(f"{axis}={given!r} cannot be used as {axis}: give a piece, such as {example!r}.")
    traits, expected = getattr(given, "traits", None), _TRAITS.get(axis)
    if expected is not None and not isinstance(traits, expected):
        raise CompositionError(
            f"{axis}={given!r} has traits={traits!r}, by which it cannot be composed: declare in {type(given).__name__} "
            f"`traits: ClassVar = {expected.__name__}(…)`."
        )
    if isinstance(traits, MergeTraits) and traits.averages and not hasattr(given, "scale"):
        raise CompositionError(
            f"{axis}={given!r} declares that it averages, and has no scale(step, workers): let that return the factor of the learning "
            "rates (1.0 for a plain mean), or leave `averages` out."
        )
