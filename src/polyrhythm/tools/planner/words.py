"""A plan in words, for the terminal and for the page alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from polyrhythm.core.records.metrics import show_metric
from polyrhythm.core.units import show_bytes, show_ratio, show_seconds
from polyrhythm.tools.planner.answer import INTERRUPTED, Choice, CrewRisk, Plan, Waits
from polyrhythm.tools.planner.certainty import certainty, likely, named, probable, settings_of, tried
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.objective import TIME

_RISKS = {"a straggler": "straggler", "slow links": "slow links"}
_CREW = {"worker": "lost worker", "first": "lost first", "newcomer": "newcomer"}
_FEW = 3
_WIDE = 100.0
"""Bounds that are so many times apart are no prediction."""
_WAITS = {"staleness": "more samples"}


def columns(plan: Plan) -> list[str]:
    """The headings of the table of choices."""
    money = ["money"] if any(each.money is not None for each in plan.choices) else []
    measured = ["measured"] if any(each.corrected is not None for each in plan.choices) else []
    interrupted = ["interrupted"] * bool(plan.interruptions)
    metric = plan.target.rpartition(" ")[0]
    return [
        "",
        f"to {plan.target}",
        "bytes",
        "between",
        *likely(plan),
        *measured,
        *money,
        metric,
        "memory",
        "waits for",
        *_RISKS.values(),
        *_CREW.values(),
        *interrupted,
    ]


def row(plan: Plan, choice: Choice) -> list[str]:
    """The row of one choice in the table."""
    money = [f"{choice.money:.3g}" if choice.money is not None else "–"] if "money" in columns(plan) else []
    measured = ["–" if choice.corrected is None else f"× {choice.corrected:.2g}"] if "measured" in columns(plan) else []
    return [
        named(choice)
        + ("" if choice.reached in (0, choice.seeds) else f": {choice.reached} of {choice.seeds} seeds")
        + (f": curve of {choice.like}" if choice.shared == choice.seeds > 0 else ""),
        f"{'about ' if choice.extrapolated else ''}{show_seconds(choice.seconds.middle)}",
        show_bytes(choice.nbytes),
        between(choice.seconds),
        *([probable(choice.probability)] if likely(plan) else []),
        *measured,
        *money,
        show_metric(choice.quality),
        "–" if choice.memory is None else show_bytes(choice.memory),
        "–" if choice.waits is None else _most(choice.waits),
        *(_risk(choice, name) for name in _RISKS),
        *(_standstill(choice, name) for name in _CREW),
        *([_interrupted(choice)] if plan.interruptions else []),
    ]


def between(interval: Interval) -> str:
    """The bounds of a time."""
    return f"{show_seconds(interval.low)} – {show_seconds(interval.high)}"


def _most(waits: Waits) -> str:
    return f"{_WAITS.get(waits.most, waits.most)} {getattr(waits, waits.most):.0%}"


def _risk(choice: Choice, name: str) -> str:
    if name not in choice.risks:
        return "–"
    factor = choice.risks[name]
    return "fails" if factor is None else f"× {factor:.2g}"


def _standstill(choice: Choice, name: str) -> str:
    """For how long the others stand still; "ends" where the run does."""
    if choice.crew is None:
        return "–"
    seconds = getattr(choice.crew, name)
    return ("ends" if name != "newcomer" else "–") if seconds is None else f"+ {show_seconds(seconds)}" if seconds else "none"


def _interrupted(choice: Choice) -> str:
    if choice.crew is None or choice.crew.interrupted is None:
        return "–"
    return show_seconds(choice.crew.interrupted) if choice.crew.interrupted < math.inf else "never"


def sentences(plan: Plan) -> list[str]:
    """The answer, what decides it, and what would change it."""
    best = plan.best
    if plan.obstacle:
        return [plan.obstacle]
    if best is None:
        return [_none(plan), *plan.remarks]
    found = [_first(plan, best), *_executed(plan, best), *certainty(plan, best), *plan.remarks]
    if best.waits is not None:
        found.append(_why(best, best.waits))
    if plan.remedies:
        helped = ", ".join(f"{each.name} (× {each.factor:.2g})" for each in plan.remedies)
        found.append(f"What would have to change: the time to the target falls most with {helped}.")
    if fails := [name for name, factor in best.risks.items() if factor is None]:
        found.append(f"Risk: the run fails with {' or '.join(fails)}.")
    if best.crew is not None and not best.is_alone:
        found += _changes(best.crew)
    return [*found, *_with_interruptions(plan, best)]


def _changes(crew: CrewRisk) -> list[str]:
    """What follows when workers are lost or join, if --workers names two numbers."""
    if crew.worker is None or crew.first is None:
        reason = f" ({crew.obstacle})" if crew.obstacle else ""
        return [f"With a lost worker the run ends{reason}, and {crew.redone} is done again."]
    how = "measured" if len(crew.measured) > 1 else "by formula"
    text = f"If workers may change (--workers A..B): after a loss {crew.after}"
    text += f", and stand still for {show_seconds(crew.worker)}" if crew.worker else ", and nobody waits"
    text += f"; of the first worker, all stand still for {show_seconds(crew.first)}"
    text += f"; for a newcomer, {show_seconds(crew.newcomer)}" if crew.newcomer is not None else ""
    lost = f" May be lost for good: {'; '.join(crew.lost)}." if crew.lost else " Nothing is lost for good."
    newcomer = [f"Nobody can join: {crew.obstacle}"] if crew.obstacle else []
    return [f"{text} ({how}); done again: {crew.redone}.{lost}", *newcomer]


def _with_interruptions(plan: Plan, best: Choice) -> list[str]:
    """The time to the target with the plan's interruptions, and which choice is first then."""
    crews = {each.name: each.crew for each in plan.choices if each.crew is not None}
    times = {name: crew.interrupted for name, crew in crews.items() if crew.interrupted is not None}
    if best.name not in times:
        return []
    takes = "never comes to it" if times[best.name] == math.inf else f"takes {_interrupted(best)} by formula"
    text = f"With {plan.interruptions}, {named(best)} {takes}"
    first = min(times, key=times.__getitem__)
    sooner = f"; {first} comes first then, in {show_seconds(times[first])}" if times[first] < times[best.name] else ""
    return [f"{text}{sooner}."]


def _none(plan: Plan) -> str:
    """Advice for a plan in which nothing is known to reach the target."""
    if plan.remarks and not plan.runs + plan.kept:
        return f"Nothing could be tried in the time of the search: {_longer(plan)}, or name a few --systems."
    if plan.refused and not plan.runs + plan.kept:
        return "None of the systems can be run on these machines; the reasons are below."
    large = sum(each.reason.startswith("a worker needs") for each in plan.refused)
    if 2 * large > len(plan.refused):
        which = "Every system needs" if large == len(plan.refused) else "Most systems need"
        return f"{which} more memory than --memory allows: give more of it, a smaller batch or a smaller model."
    if plan.runs + plan.kept and not plan.nearest:
        return f"No way of training is known to come to {plan.target}: {plan.ended}."
    near = f" ({plan.nearest})" if plan.nearest else ""
    return f"No way of training is known to come to {plan.target}{near}: {_longer(plan)}, another target, or other settings of the JOB."


def _longer(plan: Plan) -> str:
    return "it was interrupted; give it more time" if plan.ended == INTERRUPTED else "give a longer --budget"


def _first(plan: Plan, best: Choice) -> str:
    if best.extrapolated:
        return (
            f"No run came to {plan.target} in the time of the search: {_longer(plan)}. Early curves, from which one can only guess, let "
            f"{best.name} come to it first, in about {show_seconds(best.seconds.middle)} ({between(best.seconds)}); its best was "
            f"{show_metric(best.quality)}."
        )
    time = show_seconds(best.seconds.middle)
    under = tried(best)
    if not best.sure:
        return (
            f"No way of training came to {plan.target} under every seed: the best, {best.name}, did under {under}, in {time} "
            f"({between(best.seconds)}). {_longer(plan).capitalize()}, an easier target, or other settings of the JOB."
        )
    if best.is_alone:
        return _machine(plan, best, f"{time} ({between(best.seconds)}, {under})")
    text = f"{best.name} comes to {plan.target} first, in {time} ({between(best.seconds)}, {under})"
    if plan.objective != "time":
        text = f"{best.name} needs the least {plan.objective} to {plan.target}, and {time} ({under})"
    if others := [each for each in plan.choices[1:] if not each.is_alone]:
        text += f"; {_second(best, others[0])}"
    return f"{text}. {_alone(plan.alone, best) if plan.objective == 'time' else ''}".rstrip()


def _second(best: Choice, second: Choice) -> str:
    """A comparison with the next system."""
    if second.extrapolated:
        return f"{second.system} has not come to it in the time of the search, and might need {show_seconds(second.seconds.middle)}"
    if second.cost < best.cost:
        return f"{second.system} took less under its {_runs(second.seeds)}, but was not tried under as many seeds"
    if second.cost == best.cost and second.nbytes > best.nbytes:
        return (
            f"the next system, {second.system}, takes as long, and sends {show_bytes(second.nbytes)} instead of {show_bytes(best.nbytes)}"
        )
    if not best.cost:
        return "the next system needs none either" if not second.cost else f"the next system is {second.system}"
    return f"the next system, {second.system}, takes {show_ratio(second.cost / best.cost, 'much')}"


def _runs(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"{seeds} seeds"


def _alone(alone: Choice | None, best: Choice) -> str:
    """A sentence about one machine alone: whether training together pays."""
    if alone is None:
        return ""
    name = f"One machine alone, tuned in the same way ({settings_of(alone)}),"
    if not alone.sure:
        return f"{name} came to it under {alone.reached} of {_runs(alone.seeds)}."
    if not best.seconds.middle:
        return ""
    return f"{name} takes {show_ratio(alone.seconds.middle / best.seconds.middle)}."


_AS_LONG = 0.9
"""What takes a larger part of the time of one machine alone takes as long, within the error of virtual time."""


def _machine(plan: Plan, best: Choice, found: str) -> str:
    """The answer where training together does not pay."""
    text = f"One machine alone: with {settings_of(best)} it comes to {plan.target} in {found}"
    if plan.objective != TIME:
        text = f"One machine alone needs the least {plan.objective} to {plan.target}: with {settings_of(best)}, in {found}"
    if len(plan.choices) == 1:
        return f"{text}. Training together does not pay here: nothing else came to it in a time that is near this."
    second = plan.choices[1]
    if second.extrapolated or not best.cost:
        return f"{text}. Training together does not pay here: {_second(best, second)}."
    ratio = second.cost / best.cost
    if ratio < _AS_LONG:
        doubt = f"took {ratio:.2g} of that, but under {_runs(second.seeds)} only, which may be chance: give a longer --budget to know"
        return f"{text}. The best way to train together, {second.name}, {doubt}."
    than = show_ratio(ratio, "much") if ratio > 1.005 else f"{ratio:.2g} of that, which is within the error of virtual time"
    return f"{text}. Training together does not pay here: the best way, {second.name}, takes {than}."


def _executed(plan: Plan, best: Choice) -> list[str]:
    """The results of executing its command."""
    done = best.executed
    if done is None:
        return [] if best.extrapolated else ["The command was not executed before it was printed: give a longer --budget."]
    seeds = f"seed{'s' * (len(done.seeds) > 1)} {', '.join(map(str, done.seeds))}"
    what = f"Executed as it is printed, under {seeds}, which the search did not use,"
    came = ", ".join("not at all" if each is None else show_seconds(each) for each in done.seconds)
    text = f"{what} it came to {plan.target} after {came}"
    if done.missed:
        return [f"{text}: {done.missed}."]
    bounds = f"the bounds of the search ({between(done.expected)})"
    if done.inside and done.expected.high > _WIDE * done.expected.low:
        return [f"{text}; {bounds} are too wide to say anything: give a longer --budget."]
    return [f"{text}: within {bounds}." if done.inside else f"{text}: outside of {bounds}; those above include it."]


def _why(best: Choice, waits: Waits) -> str:
    parts = {
        "computing": waits.compute,
        "bandwidth": waits.bandwidth,
        "latency": waits.latency,
        "samples beyond the fewest that any needed (staleness, large batches)": waits.staleness,
    }
    shown = ", ".join(f"{part:.0%} {name}" for name, part in sorted(parts.items(), key=lambda each: -each[1]) if part >= 0.005)
    return f"Of the time of {best.system}: {shown}."


def ruled_out(plan: Plan) -> list[str]:
    """The candidates that were ruled out, counted by reason, with a few of their names."""
    groups: dict[str, list[str]] = {}
    for refusal in plan.refused:
        groups.setdefault(_kind(refusal.reason), []).append(refusal.name)
    return [f"{_counted(names)}: {kind}" for kind, names in sorted(groups.items(), key=lambda each: -len(each[1]))]


def _kind(reason: str) -> str:
    """A reason without the figures of one candidate."""
    head, _, tail = reason.partition(": ")
    if head.startswith("a sample takes"):
        return tail
    if head.startswith("others lead"):
        return "others led early on, as their papers have them"
    if head.startswith("a worker needs"):
        machine = head.partition(", and ")[2].rpartition(" has ")[0]
        return f"a worker would need more memory than {f'{machine} has' if machine else '--memory'}"
    return reason


def _counted(names: Sequence[str]) -> str:
    systems = list(Counter(name.partition(" ")[0] for name in names))
    return ", ".join(systems[:_FEW]) + (f" and {len(systems) - _FEW} more" if len(systems) > _FEW else "")
