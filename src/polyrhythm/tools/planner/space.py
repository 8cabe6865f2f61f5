"""The space of candidates: systems, their options, numbers of workers, learning rates and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import islice
from typing import Any, get_type_hints

from polyrhythm.core.job_files.values import kinds_of
from polyrhythm.errors import CompositionError
from polyrhythm.systems import SYSTEMS
from polyrhythm.systems.declaration import also_called
from polyrhythm.tools.measuring.machine_speed import BATCHES
from polyrhythm.tools.planner.candidate import ALONE, GROUPS, Candidate
from polyrhythm.tools.planner.chosen_machines import ChosenMachines, choices_of, grouped_choices, shared_choices
from polyrhythm.tools.planner.lengths import Length
from polyrhythm.tools.planner.scenario import Scenario, is_positive

OPTIONS: Mapping[str, Sequence[Any]] = {
    "tau": (1, 4, 16, 64),
    "slack": (0, 2, 8),
    "delay": (0, 2, 8),
    "shards": (1, 2, 4),
    "servers": (1, 2, 4),
}
"""Values that are tried in addition to a system's own default, of options that many papers call so."""
RATES = ("lr", "learning_rate")
RATE_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
BATCH_FACTORS = (0.5, 1.0, 2.0)
LENGTH_FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class Space:
    """The candidates of a plan. `rate` and `batch` are the names and defaults of the JOB's settings, None where it has none.

    `length` is varied too where the JOB's schedule depends on it, else None. `machines` are choices of some of them, where they differ.
    """

    systems: tuple[str, ...]
    workers: tuple[int, ...]
    rate: tuple[str, float] | None = None
    batch: tuple[str, int] | None = None
    length: Length | None = None
    machines: tuple[ChosenMachines, ...] = ()

    @staticmethod
    def of(scenario: Scenario, systems: Sequence[str], workers: Sequence[int]) -> Space:
        """The space of a training function: its learning rate and batch are found by their usual names."""
        rates = [(name, float(scenario.default(name))) for name in RATES if is_positive(scenario.default(name))]
        batches = [(name, int(scenario.default(name))) for name in BATCHES if is_positive(scenario.default(name))]
        rate, batch = next(iter(rates), None), next(iter(batches), None)
        if any(machine.measured for machine in scenario.devices.machines):
            batch = None  # measured steps take what they took, whatever their batch
        length = scenario.length if scenario.observed.scheduled else None
        some = choices_of(scenario.devices, scenario.network, max(workers))
        if batch is not None:  # whose samples each worker may have its share of
            some = (*some, *shared_choices(scenario.devices, max(workers), some))
        if any(takes_groups(system) for system in systems):
            some = (*some, *grouped_choices(scenario.devices, scenario.network, max(workers)))
        return Space(tuple(systems), tuple(sorted(set(workers))), rate, batch, length, some)

    def first(self, **factors: float) -> Iterator[Candidate]:
        """Every system as its paper has it, with the middle number of workers, and settings that are so many times the JOB's own."""
        middle = self.together[(len(self.together) - 1) // 2]
        every = [self.changed(Candidate(system, middle), **factors) for system in self.systems if system != ALONE.system]
        yield from every
        for some in self.without_slowest:  # one slow machine may hold up all others
            yield from (each.on(some) for each in every)
        for some in self.machines:  # one system tells what these are worth to all that take them
            if some.groups:
                yield from (each.on(some) for each in every if takes_groups(each.system))
            if some.shares:
                yield from islice((each.on(some) for each in every if takes_shares(each.on(some))), 1)

    @property
    def without_slowest(self) -> tuple[ChosenMachines, ...]:
        """The machines without the slowest kind; empty where all are alike."""
        return tuple(some for some in self.machines if some.unlike and not some.shares and not some.groups)[:1]

    @property
    def allows_alone(self) -> bool:
        """True if one worker without others is an answer, and not only something to compare with."""
        return 1 in self.workers and ALONE.system in self.systems

    @property
    def together(self) -> tuple[int, ...]:
        """The numbers of those that train together."""
        return tuple(each for each in self.workers if each > 1)

    def factors(self, candidate: Candidate) -> dict[str, float]:
        """The factors of what is `varied`, of the JOB's own values: those that are tried, whole numbers were rounded."""
        settings = dict(candidate.settings)
        ratios = {name: (settings.get(key, own) / own, tried) for name, (key, own, tried) in self.varied.items()}
        return {name: min(tried, key=lambda factor: abs(factor - ratio)) for name, (ratio, tried) in ratios.items()}

    def neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """The candidate with one thing changed: the other numbers of workers, and half and twice its learning rate and its length."""
        if candidate.workers > 1:
            yield from (candidate.on_every(count) for count in reversed(self.together) if count != candidate.workers or candidate.machines)
            yield from (candidate.on(some) for some in self.machines if some != candidate.machines and suits(some, candidate.system))
        known = self.factors(candidate)
        for name, (_, _, factors) in self.varied.items():
            for factor in (2.0, 0.5):
                if name != "batch" and min(factors) <= factor * known[name] <= max(factors):
                    yield self.changed(candidate, **{name: factor * known[name]})

    @property
    def varied(self) -> dict[str, tuple[str, float, Sequence[float]]]:
        """The JOB's settings that are varied: "rate", "batch", "length", each with its name there, its own value, and factors of that."""
        found: dict[str, tuple[str, float, Sequence[float]]] = {}
        if self.rate is not None:
            found["rate"] = (*self.rate, RATE_FACTORS)
        if self.batch is not None:
            found["batch"] = (*self.batch, BATCH_FACTORS)
        if self.length is not None:
            found["length"] = (self.length.name, self.length.own, LENGTH_FACTORS)
        return found

    def changed(self, candidate: Candidate, **factors: float) -> Candidate:
        """The candidate with "rate", "batch" or "length" so many times the JOB's own."""
        settings, found = dict(candidate.settings), dict[str, Any]()
        for name, (key, own, _) in self.varied.items():
            whole = isinstance(own, int)
            value = settings.get(key, own) if name not in factors else max(1, round(own * factors[name])) if whole else own * factors[name]
            if value != own:
                found[key] = value
        return replace(candidate, settings=tuple(found.items()))


def options_of(system: str) -> dict[str, tuple[Any, ...]]:
    """The options of a system that are tried, each with its default first."""
    found = {}
    for key, parameter in signature(SYSTEMS[system]).parameters.items():
        values = OPTIONS.get(_in_papers(system, key), ())
        if values and _is_number(parameter.default):
            found[key] = (parameter.default, *(value for value in values if value != parameter.default))
    return found


def suits(some: ChosenMachines, system: str) -> bool:
    """True if the system has something to do with all that the choice says of machines, and that says something."""
    return bool(some) and (not some.groups or takes_groups(system))


def takes_groups(system: str) -> bool:
    """True if the system's workers may be in any groups."""
    return str in kinds_of(get_type_hints(SYSTEMS[system]).get(GROUPS))


def takes_shares(candidate: Candidate) -> bool:
    """True if its system can have workers take unequal parts of a step."""
    try:
        return candidate.strategy.shuffle.weighs
    except CompositionError:
        return False


def _in_papers(system: str, option: str) -> str:
    """The first name that the system's paper has for its option; the option's own if there is none."""
    return next(iter(also_called(SYSTEMS[system], option)), option)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
