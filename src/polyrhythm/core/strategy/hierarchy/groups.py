"""Groups as a user writes them in `Hierarchical(groups=…)`."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.catalogue import ByHost, BySite, Given, OfSize
from polyrhythm.core.protocols.groups import Groups
from polyrhythm.errors import CompositionError

_NAMED: dict[str, Groups] = {"site": BySite(), "host": ByHost()}


def groups_of(given: Groups | str | int | Sequence[Sequence[int]]) -> Groups:
    """`given`, or what "site", "host", a size or lists of ranks stand for, these also as "0,1/2,3".

    Raises CompositionError for anything else.
    """
    if isinstance(given, str):
        return _NAMED[given] if given in _NAMED else _typed(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return OfSize(given)
    if isinstance(given, (list, tuple)):
        return Given(tuple(tuple(group) for group in given))
    if callable(getattr(type(given), "divide", None)):
        return given  # type: ignore[return-value]
    raise _no_groups(given)


def _typed(text: str) -> Groups:
    try:
        return Given(tuple(tuple(int(rank) for rank in group.split(",")) for group in text.split("/")))
    except ValueError:
        raise _no_groups(text) from None


def _no_groups(given: object) -> CompositionError:
    ways = " or ".join(map(repr, _NAMED))
    return CompositionError(f"groups={given!r} is no way to form groups: give {ways}, a size, or lists of ranks, as text '0,1/2,3'.")
