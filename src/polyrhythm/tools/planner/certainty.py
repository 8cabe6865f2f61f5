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


def tried(choice: Choice) -> str:
    """Under how many seeds it was run: what it shares with another was run there, and only timed here."""
    seeds = "one seed" if choice.seeds == 1 else f"{choice.seeds} seeds"
    under = seeds if choice.sure else f"{choice.reached} of {seeds}"
    if not choice.shared:
        return under
    if choice.shared == choice.seeds:
        return f"by the curve of {choice.like}, {under}"
    return f"{under}, {choice.shared} of them by the curve of {choice.like}"


def _shares(best: Choice) -> str:
    """What was run and what was shared of a choice that has the curve of another."""
    if best.shared == best.seeds:
        return (
            f"It was timed for a few steps, and not run to the target: its curve is that of {best.like}, to which it is equal in lockstep."
        )
    own = best.seeds - best.shared
    return (
        f"It was run under {own} seed{'s' * (own > 1)}; under {best.shared} more it has the curve of {best.like}, to which it is equal in "
        "lockstep."
    )


def certainty(plan: Plan, best: Choice) -> list[str]:
    """How sure the first choice is, and whether its curve is its own."""
    alike = f" {_shares(best)}" if best.shared else ""
    if best.probability is None or best.extrapolated:
        return [alike.strip()] if alike else []
    others = [f"{named(each)} {probable(each.probability)}" for each in plan.choices[1:] if (each.probability or 0.0) >= _WORTH_NAMING][
        :_FEW
    ]
    rest = f"; of the others, {', '.join(others)}" if others else ""
    return [f"It is the best, within 5%, with a probability of {probable(best.probability)}{rest}.{alike}"]
