"""What all workers of a run must say alike, and the sentence that names a difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Facts = Mapping[str, str]
"""What is said, by what it is said about: {"seed": "1"}."""

_SHOWN = 3
_ALSO = 2


class Agreements:
    """Workers agree several times, all on the same things in the same order: in rounds that are counted from 0."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, Facts]] = []
        self._counts: dict[str, int] = {}

    def say(self, name: str, facts: Facts) -> int:
        """Keep what the worker `name` says next; the round that this belongs to."""
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        if number == len(self._rounds):
            self._rounds.append({})
        said = self._rounds[number]
        first = next(iter(said.values()), facts)
        said[name] = first if facts == first else facts  # one copy for a thousand workers
        return number

    def complete(self, number: int, names: Collection[str]) -> bool:
        """Whether all of `names` have spoken in that round."""
        return number < len(self._rounds) and self._rounds[number].keys() >= set(names)

    def difference(self, number: int) -> str | None:
        """The first thing on which those who have spoken in that round differ, with who says what; None if there is none."""
        return difference(self._rounds[number])

    def differs(self, number: int, name: str) -> bool:
        """Whether the worker `name` says something else there than the first who spoke."""
        said = self._rounds[number]
        return said[name] is not next(iter(said.values()))


def difference(said: Mapping[str, Facts]) -> str | None:
    """The first thing on which `said`, facts by worker, differ; None if there is none."""
    about = {what: None for facts in said.values() for what in facts}
    for what in about:
        groups: dict[str | None, list[str]] = {}
        for name in sorted(said, key=_place):
            groups.setdefault(said[name].get(what), []).append(name)
        if len(groups) > 1:
            return ", ".join(_part(names, what, value) for value, names in list(groups.items())[:_SHOWN])
    return None


def _part(names: Sequence[str], what: str, value: str | None) -> str:
    has = "has" if len(names) == 1 else "have"
    return f"{listed(names)} {has} {f'no {what}' if value is None else f'{what} {value}'}"


def listed(names: Sequence[str]) -> str:
    """ "worker/0", "worker/0 and worker/1", "worker/0 and 3 others"."""
    if len(names) <= _ALSO:
        return " and ".join(names)
    return f"{names[0]} and {len(names) - 1} others"


def _place(name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition("/")
    return kind, int(number)
