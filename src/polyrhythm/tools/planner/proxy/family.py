"""A family of smaller versions of the user's model: the settings that have its size, and their values. A proxy plan trains its members."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from polyrhythm.core.job_files.settings import settings_of, with_settings
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.tools.planner.candidate import Pairs, show
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.scaling.power_law import LEAST_SIZES

AUTOMATIC = "auto"
_NAMES = (
    r"(?:n_|d_|dim_|num_)?(?:width|hidden|model|embd?|embed|embedding)(?:_?(?:size|dim|width|units|features))?",
    r"(?:base_)?(?:channels|filters|planes|units|features)|dim|d|width_(?:factor|multiplier)",
    r"(?:n_?|num_)?(?:layers?|blocks|depth)",
)
"""Names of settings of size, the width first: narrow versions keep the steps of a training alike, shallow ones less so."""
_SHRUNK = 32
"""Sizes that are found have at least this part of the true value."""


@dataclass(frozen=True, slots=True)
class ProxyFamily:
    """`sizes` are the settings of each smaller version, the smallest first, and `true` those of the model itself."""

    sizes: tuple[Pairs, ...]
    true: Pairs

    @property
    def name(self) -> str:
        """The settings that differ."""
        return " and ".join(key for key, _ in self.true)

    def of(self, sizes: Iterable[Pairs]) -> ProxyFamily:
        """The family with these of its sizes."""
        return ProxyFamily(tuple(sizes), self.true)


def size_name(size: Pairs) -> str:
    """A size as it is typed: "width=32"."""
    return ", ".join(f"{key}={show(value)}" for key, value in size)


def family_of(given: Sequence[str], scenario: Scenario) -> ProxyFamily:
    """The family that `given` names for the JOB of `scenario`.

    Each of `given` is "KEY=A,B,C", and those of several keys go together, or "KEY", or "auto": then the values are halves, quarters, ...
    of the JOB's own, with the values between. The true value is that of the JOB with the scenario's settings. Raises CompositionError for
    a JOB without such a setting, fewer than three sizes, and sizes that are not smaller than the true one; UnknownNameError for a setting
    that does not exist, and WorkloadError for a value that the JOB refuses.
    """
    if not is_given(given):
        key = _found(scenario) if given[0] == AUTOMATIC else given[0]
        true = _true(scenario, key)
        return ProxyFamily(tuple(((key, value),) for value in _smaller(true, scenario, key)), ((key, true),))
    columns = dict(_typed(each) for each in given)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        listed = ", ".join(f"{key} has {len(values)}" for key, values in columns.items())
        raise CompositionError(f"The settings of a size go together, and {listed} values: give each as many.")
    if min(lengths) < LEAST_SIZES:
        raise CompositionError(
            f"A family of {min(lengths)} size{'s' * (min(lengths) != 1)} says nothing of how training changes with the size: give "
            f"{LEAST_SIZES} or more, such as --proxy width=32,48,64,96."
        )
    true = tuple((key, _true(scenario, key)) for key in columns)
    read = {key: [_value(scenario, key, text) for text in values] for key, values in columns.items()}
    sizes = [tuple((key, read[key][place]) for key in columns) for place in range(min(lengths))]
    _check(sizes, true)
    return ProxyFamily(tuple(sorted(sizes, key=lambda size: [value for _, value in size])), true)


def is_given(given: Sequence[str]) -> bool:
    """True if values are given, and are not to be found."""
    return len(given) != 1 or "=" in given[0]


def _typed(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not equals or not key:
        raise CompositionError(f"--proxy {text} names no setting and its values: write --proxy width=32,48,64,96, or --proxy width alone.")
    return key.strip(), [each.strip() for each in values.split(",") if each.strip()]


def _found(scenario: Scenario) -> str:
    """The first setting of size by its name. Raises CompositionError where there is none."""
    names = [name for name in settings_of(scenario.train) if _is_size(scenario.default(name))]
    for pattern in _NAMES:
        for name in names:
            if re.fullmatch(pattern, name.lower()):
                return name
    listed = ", ".join(settings_of(scenario.train)) or "none at all"
    raise CompositionError(
        f"{scenario.job} has no setting of the model's size that is known by its name (it has {listed}): give its training function a "
        "keyword such as width=768 or layers=12, or name a setting of your own: --proxy KEY=A,B,C."
    )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1


def _true(scenario: Scenario, key: str) -> Any:
    scenario.set({key: _value(scenario, key, str(scenario.default(key)))} if key in settings_of(scenario.train) else {key: ""})
    value = scenario.default(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CompositionError(
            f"The setting {key} of {scenario.job} is {value!r}, and no number: name one that says how large the model is."
        )
    return value


def _value(scenario: Scenario, key: str, text: str) -> Any:
    """The value of a setting as the JOB has it. Raises UnknownNameError and WorkloadError."""
    with_settings(scenario.train, scenario.job, {key: text})
    return Scenario.default(_with(scenario, {key: text}), key)


def _with(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    return scenario.elsewhere(settings={**scenario.settings, **changes})


def _check(sizes: Sequence[Pairs], true: Pairs) -> None:
    if len(set(sizes)) < len(sizes):
        raise CompositionError("A size is named twice in --proxy: give each once.")
    for size in sizes:
        if any(value > of for (_, value), (_, of) in zip(size, true, strict=True)) or size == true:
            raise CompositionError(
                f"{size_name(size)} is not smaller than the JOB's own {size_name(true)}: give smaller sizes, or set the true one with "
                f"--set {size_name(true[:1])}."
            )


def _smaller(true: Any, scenario: Scenario, key: str) -> list[Any]:
    """Values below the true one, about √2 apart, with which the JOB can be built; the smallest first."""
    if not _is_size(true):
        raise CompositionError(f"{key}={show(true)} of {scenario.job} has no smaller sizes: give them, such as --proxy {key}=A,B,C.")
    wanted = [true / 2 ** (halves / 2) for halves in range(2, 24)]
    found: list[Any] = []
    for each in takewhile(lambda value: value * _SHRUNK >= min(true, 2 * _SHRUNK), wanted):
        value = next((near for near in _near(each) if near < true and near not in found and _fits(scenario, key, near)), None)
        if value is not None:
            found.append(value)
    if len(found) < LEAST_SIZES:
        raise CompositionError(
            f"{key}={true} of {scenario.job} has {len(found)} smaller sizes that can be built, and a law takes {LEAST_SIZES}: give them "
            "with what goes with them, such as --proxy width=32,48,64 --proxy heads=2,3,4."
        )
    return found[::-1]


def _near(value: float) -> list[int]:
    """Whole numbers near a value: multiples of eight first, as widths are divided among heads."""
    step = 8 if value >= 16 else 4 if value >= 8 else 1
    middle = max(1, round(value / step) * step)
    return [each for each in (middle, middle - step, middle + step) if each > 0]


def _fits(scenario: Scenario, key: str, value: int) -> bool:
    try:
        scenario.set({key: value})
    except PolyrhythmError:
        return False
    return True
