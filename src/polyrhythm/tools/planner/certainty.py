"""How sure a plan is, in words: of its first choice when it is over, and of the present answer meanwhile."""

from __future__ import annotations

from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.answer import Choice, Plan, PresentAnswer
from polyrhythm.tools.planner.candidate import show

_FEW = 3
_WORTH_NAMING = 0.05
_LEAST = 0.01


def named(choice: Choice) -> str:
    """The name of a choice in tables and charts; one machine alone is called that, wherever it stands."""
    return f"one machine alone ({settings_of(choice)})" if choice.is_alone else choice.name


def settings_of(choice: Choice) -> str:
    """The settings of a choice in words."""
    return ", ".join(f"{key}={show(value)}" for key, value in choice.settings.items()) or "the settings of the JOB"


def likely(plan: Plan) -> list[str]:
    """The heading of the column of probabilities, where there are any."""
    return ["probability"] * any(each.probability is not None for each in plan.choices)


def probable(probability: float | None) -> str:
    """A probability as it is shown: by some hundred draws nothing is certain, nor impossible."""
    if probability is None:
        return "–"
    return "< 1%" if probability < _LEAST else "> 99%" if probability > 1 - _LEAST else f"{probability:.0%}"


def present(standing: PresentAnswer) -> str:
    """The present answer of a search that goes on, in one line."""
    return f"best so far {standing.name}, {show_seconds(standing.seconds)}, the best with a probability of {probable(standing.probability)}"


def certainty(plan: Plan, best: Choice) -> list[str]:
    """How sure the first choice is, and whether its curve is its own."""
    alike = f" Its curve is that of {best.like}: both are equal in lockstep, and it was timed for a few steps." if best.like else ""
    if best.probability is None or best.extrapolated:
        return [alike.strip()] if alike else []
    others = [f"{named(each)} {probable(each.probability)}" for each in plan.choices[1:] if (each.probability or 0.0) >= _WORTH_NAMING][
        :_FEW
    ]
    rest = f"; of the others, {', '.join(others)}" if others else ""
    return [f"It is the best, within 5%, with a probability of {probable(best.probability)}{rest}.{alike}"]
