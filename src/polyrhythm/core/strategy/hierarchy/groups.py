"""Groups as a user writes them in `Hierarchical(groups=…)`."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.catalogue import ByHost, BySite, Given, OfSize
from polyrhythm.core.protocols.groups import Groups
from polyrhythm.errors import CompositionError

_NAMED: dict[str, Groups] = {"site": BySite(), "host": ByHost()}


def groups_of(given: Groups | str | int | Sequence[Sequence[int]]) -> Groups:
    """`given`, or what "site", "host", a size or lists of ranks stand for. Raises CompositionError for anything else."""
    if isinstance(given, str):
        if given not in _NAMED:
            raise _no_groups(given)
        return _NAMED[given]
    if isinstance(given, int) and not isinstance(given, bool):
        return OfSize(given)
    if isinstance(given, (list, tuple)):
        return Given(tuple(tuple(group) for group in given))
    if callable(getattr(type(given), "divide", None)):
        return given  # type: ignore[return-value]
    raise _no_groups(given)


def _no_groups(given: object) -> CompositionError:
    ways = " or ".join(map(repr, _NAMED))
    return CompositionError(f"groups={given!r} is no way to form groups: give {ways}, a size, or lists of ranks.")
