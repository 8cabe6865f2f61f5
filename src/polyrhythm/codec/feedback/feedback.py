"""The check that all error-feedback wrappers make of the codec that they wrap."""

from __future__ import annotations

from polyrhythm.core.protocols.codec import Codec
from polyrhythm.errors import CompositionError


def check_feedback(name: str, inner: Codec) -> None:
    """Raise CompositionError if error feedback `name` around `inner` would keep the residual twice, keep the wrong values, or have none."""
    kind, traits = type(inner).__name__, inner.traits
    if traits.keeps:
        raise CompositionError(
            f"{name}({inner}) would keep what is not sent twice, and send it twice: {kind} keeps it already. Use it bare."
        )
    if traits.transforms:
        raise CompositionError(
            f"{name}({inner}) would take for an error what {kind} makes of the values: give {name} to the codec inside of it."
        )
    if not traits.lossy:
        raise CompositionError(f"{name}({inner}) has nothing to feed back: {kind} loses nothing. Use it bare.")
