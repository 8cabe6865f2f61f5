"""Facts that must be equal at all workers of a run, and the sentence that names a difference.

`WorkerContext.agree` and `align` take such facts; the simulator and, for real processes, `AgreementCollector` compare them by `Agreements`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Facts = Mapping[str, str]
"""Values by what they describe: {"seed": "1"}."""

PART = "part of the model"
"""The fact by which workers say which part of a model they hold, where it is in parts: they compare with those that hold the same one."""
_SHOWN = 3
_ALSO = 2


class Agreements:
    """Compares the facts of workers in rounds, which are counted from 0; all workers take part in all rounds, in the same order."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, Facts]] = []
        self._remedies: list[dict[str, str]] = []
        self._counts: dict[str, int] = {}

    def submit(self, name: str, facts: Facts, remedy: str) -> int:
        """Record the next facts of the worker `name`, and what to do where others are different; returns the number of their round."""
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        if number == len(self._rounds):
            self._rounds.append({})
            self._remedies.append({})
        self._remedies[number][name] = remedy
        submitted = self._rounds[number]
        first = next((each for each in submitted.values() if each.get(PART) == facts.get(PART)), facts)
        submitted[name] = first if facts == first else facts  # one copy for a thousand workers
        return number

    def complete(self, number: int, names: Collection[str]) -> bool:
        """True if all of `names` have submitted their facts in that round."""
        return number < len(self._rounds) and self._rounds[number].keys() >= set(names)

    def difference(self, number: int) -> str | None:
        """The first fact that differs in that round, with the workers, their values and what to do; None if all are equal so far.

        Workers may have come to the same round with different calls: the remedy is that of a worker that has the fact.
        """
        submitted, remedies = self._rounds[number], self._remedies[number]
        found = first_difference(submitted)
        if found is None:
            return None
        what, sentence = found
        return f"{sentence}: {next(remedies[name] for name, facts in submitted.items() if what in facts)}"

    def differs(self, number: int, name: str) -> bool:
        """True if the facts of the worker `name` differ from those that were submitted first in that round."""
        submitted = self._rounds[number]
        facts = submitted[name]
        return facts is not next(each for each in submitted.values() if each.get(PART) == facts.get(PART))


def difference(submitted: Mapping[str, Facts]) -> str | None:
    """The first fact that differs in `submitted`, facts by worker, with the workers and their values; None if all are equal.

    Examples:
        >>> difference({"worker/0": {"seed": "1"}, "worker/1": {"seed": "2"}})
        'worker/0 has seed 1, worker/1 has seed 2'
    """
    found = first_difference(submitted)
    return None if found is None else found[1]


def first_difference(submitted: Mapping[str, Facts]) -> tuple[str, str] | None:
    """The name of the first fact that differs in `submitted`, and the sentence that `difference` gives for it; None if all are equal."""
    for part in dict.fromkeys(facts.get(PART) for facts in submitted.values()):
        found = _difference_in_part({name: facts for name, facts in submitted.items() if facts.get(PART) == part})
        if found is not None:
            return found
    return None


def _difference_in_part(submitted: Mapping[str, Facts]) -> tuple[str, str] | None:
    about = {what: None for facts in submitted.values() for what in facts}
    for what in about:
        groups: dict[str | None, list[str]] = {}
        for name in sorted(submitted, key=place):
            groups.setdefault(submitted[name].get(what), []).append(name)
        if len(groups) > 1:
            return what, ", ".join(_part(names, what, value, submitted[names[0]]) for value, names in list(groups.items())[:_SHOWN])
    return None


def _part(names: Sequence[str], what: str, value: str | None, facts: Facts) -> str:
    has = "has" if len(names) == 1 else "have"
    if value is None and facts:
        return f"{listed(names)} {has} come to another call, in which the {next(iter(facts))} of all is compared"
    return f"{listed(names)} {has} {f'no {what}' if value is None else f'{what} {value}'}"


def listed(names: Sequence[str]) -> str:
    """ "worker/0", "worker/0 and worker/1", "worker/0 and 3 others"."""
    if len(names) <= _ALSO:
        return " and ".join(names)
    return f"{names[0]} and {len(names) - 1} others"


def place(name: str) -> tuple[str, int]:
    """The sort key of actor names, which puts "worker/2" before "worker/10"."""
    kind, _, number = name.rpartition("/")
    return kind, int(number)
