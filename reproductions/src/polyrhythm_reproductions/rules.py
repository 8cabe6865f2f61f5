"""Twelve ways to fool the masses, as rules that a report must keep (after Bailey, 1991, and Hoefler's twelve of 2018).

A rule looks at findings and says in a sentence what breaks it. `refuse` raises HonestyError with the names of the rules that are broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from polyrhythm.errors import PolyrhythmError
from polyrhythm.systems.published_verdicts import NOT_REPRODUCED, Verdict
from polyrhythm.tools.report.repeats import spread
from polyrhythm_reproductions.arm import Arm
from polyrhythm_reproductions.findings import LEAST_SEEDS, Finding, ReproductionReport, verdict_of, verdict_on
from polyrhythm_reproductions.protocol import ClaimKind, Efficiency, Scaling, swapped, without_effect


class HonestyError(PolyrhythmError):
    """A report that breaks a rule of honest reporting."""


@dataclass(frozen=True, slots=True)
class HonestyRule:
    """`broken` gives a sentence for each place where the findings break the rule."""

    number: int
    name: str
    broken: Callable[[ReproductionReport], Iterator[str]]


def problems(findings: ReproductionReport) -> list[str]:
    """The broken rules, as sentences that begin with the number and name of the rule."""
    return [f"rule {rule.number} ({rule.name}): {said}" for rule in RULES for said in rule.broken(findings)]


def refuse(findings: ReproductionReport) -> None:
    """Raise HonestyError if a rule is broken."""
    if found := problems(findings):
        raise HonestyError(f"The report on {findings.name} is refused. It breaks {'; '.join(found)}")


def _seconds_matter(findings: ReproductionReport) -> bool:
    timed = (Efficiency.SYSTEM.value, Efficiency.REAL.value)
    return any(claim.efficiency in timed for claim in findings.claims if not claim.why_not)


def _speed_without_quality(findings: ReproductionReport) -> Iterator[str]:
    if _seconds_matter(findings):
        for arm in findings.arms:
            if not arm.metric or math.isnan(arm.final):
                yield f"{arm.name} (seed {arm.seed}) has seconds and no quality of the same run."


def _training_quality(findings: ReproductionReport) -> Iterator[str]:
    for arm in findings.arms:
        if arm.split not in ("held-out", "validation", "test") or "train" in arm.metric:
            yield f"{arm.name} reports {arm.metric} on {arm.split or 'unknown'} data: measure it on data that are not trained on."


def _hidden_tuning(findings: ReproductionReport) -> Iterator[str]:
    runs = {arm.name: findings.tuning_runs.get(arm.name, 0) for arm in findings.arms}
    if runs and max(runs.values()) > 1.1 * min(runs.values()):
        shown = ", ".join(f"{name} {count}" for name, count in runs.items())
        yield f"arms were tuned with different numbers of runs ({shown}): give all the same grid."


def _other_hardware(findings: ReproductionReport) -> Iterator[str]:
    kinds = {arm.hardware for arm in findings.arms if arm.seed == findings.seeds[0]}
    if _seconds_matter(findings) and len(kinds) > 1 and not findings.machines:
        yield f"arms run on different machines or networks ({' and '.join(sorted(kinds))}), and nothing says why they can be compared."


def _kernels_only(findings: ReproductionReport) -> Iterator[str]:
    if not findings.arms and any(claim.efficiency == Efficiency.SYSTEM.value for claim in findings.claims) and not findings.notes:
        yield "seconds come from no whole training: say in the notes what part of one was run."


def _no_input(findings: ReproductionReport) -> Iterator[str]:
    for arm in findings.arms:
        if not (arm.data and arm.data_wait):
            yield f"{arm.name} does not say where its data come from, or whether waiting for them is in the seconds."


_UNITS = {
    *("1", "x", "%", "steps", "samples", "bytes", "bytes/step", "messages", "messages/step", "s", "s/step", "samples/s"),
    *("accuracy", "points", "bits", "loss", "nats", "ratio", "difference", "correlation", "workers", "elements", "rounds", "trials"),
}


def _unclear_units(findings: ReproductionReport) -> Iterator[str]:
    for claim in findings.claims:
        if not claim.why_not and claim.unit not in _UNITS:
            yield f"{claim.figure} is in {claim.unit!r}, which has no counting rule: use one of {', '.join(sorted(_UNITS))}."


def _two_settings(findings: ReproductionReport) -> Iterator[str]:
    for arm in findings.arms:
        if not arm.config:
            yield f"{arm.name} does not say with which settings its seconds and its quality came about."
    seen: dict[tuple[str, int], str] = {}
    for arm in findings.arms:
        if seen.setdefault((arm.name, arm.seed), arm.config) != arm.config:
            yield f"{arm.name} (seed {arm.seed}) has runs with two different settings: give them different names."


def _large_inputs(findings: ReproductionReport) -> Iterator[str]:
    for arm in findings.arms:
        if arm.global_batch > arm.dataset:
            yield f"{arm.name} takes {arm.global_batch} samples a step of a data set of {arm.dataset}."


def _flattering_end(findings: ReproductionReport) -> Iterator[str]:
    if not findings.stop:
        yield "nothing says when training stops: fix it beforehand."
    for arm in findings.arms:
        if not arm.curve and not arm.diverged:
            yield f"{arm.name} (seed {arm.seed}) has no curve."


def _blurred_scaling(findings: ReproductionReport) -> Iterator[str]:
    first = [arm for arm in findings.arms if arm.seed == findings.seeds[0]]
    if len({arm.workers for arm in first}) < 2:
        return
    kind = {"batch": {arm.batch for arm in first}, "global": {arm.global_batch for arm in first}}
    if findings.scaling == Scaling.NONE.value:
        yield "numbers of workers differ, and it is not said whether scaling is weak or strong."
    elif findings.scaling == Scaling.WEAK.value and len(kind["batch"]) > 1:
        yield f"scaling is said to be weak, and batches of a worker differ ({_listed(kind['batch'])})."
    elif findings.scaling == Scaling.STRONG.value and len(kind["global"]) > 1:
        yield f"scaling is said to be strong, and global batches differ ({_listed(kind['global'])})."


def _weak_baseline(findings: ReproductionReport) -> Iterator[str]:
    names = {arm.name for arm in findings.arms}
    if len(names) > 1 and findings.baseline not in names:
        yield f"the baseline is {findings.baseline or 'not named'}, and is none of the arms: {', '.join(sorted(names))}."
    for arm in findings.arms:
        if arm.name == findings.baseline and arm.diverged:
            yield f"the baseline, {arm.name}, diverged with seed {arm.seed}: whatever is compared with it wins."


def _unfounded_verdict(findings: ReproductionReport) -> Iterator[str]:
    for claim in findings.claims:
        if claim.why_not:
            continue
        if len(claim.values) != len(findings.seeds):
            yield f"{claim.figure} has {len(claim.values)} values and {len(findings.seeds)} seeds."
        elif claim.least is None and claim.most is None:
            yield f"any value of {claim.figure} would do: its claim has no bound."
        elif claim.verdict != (measured := verdict_on(claim.values, claim.least, claim.most)):
            yield f"{claim.figure} is called {claim.verdict}, and its values say {measured}."
        elif claim.median is not None and not math.isclose(claim.median, middle := spread(claim.values).median, rel_tol=1e-6):
            yield f"the median of {claim.figure} is said to be {claim.median:g}, and that of its values is {middle:g}."
    if findings.verdict != verdict_of(findings.claims):
        yield f"all in all it is called {findings.verdict}, and its claims say {verdict_of(findings.claims)}."


def _either_way(findings: ReproductionReport) -> Iterator[str]:
    for claim in findings.claims:
        if claim.why_not or claim.kind == ClaimKind.VALUE.value:
            continue
        null = without_effect(claim.unit)
        admitted = verdict_on([null], claim.least, claim.most) != NOT_REPRODUCED
        if claim.kind == ClaimKind.NO_WORSE.value:
            if not admitted:
                yield f"{claim.figure} is to be no worse, and its bounds leave out {null:g}."
        elif admitted:
            yield f"{claim.figure} is called an effect, and its bounds admit {null:g}, which is none."
        elif NOT_REPRODUCED not in (ways := _both_ways(claim)):
            yield f"{claim.figure} is {ways[0]}, and would be {ways[1]} if its arms changed places."


def _both_ways(claim: Finding) -> tuple[Verdict, Verdict]:
    """The verdict on the values, and that if the two arms changed places."""
    as_found, changed = claim.values, [swapped(each, claim.unit) for each in claim.values]
    return verdict_on(as_found, claim.least, claim.most), verdict_on(changed, claim.least, claim.most)


def too_few_seeds(seeds: int, quick: bool, efficiencies: Sequence[str]) -> str:
    """Why claims of such `efficiencies` (values of Efficiency) cannot be judged with so many seeds; empty where they can."""
    if quick or seeds >= LEAST_SEEDS or all(each == Efficiency.EXACT.value for each in efficiencies):
        return ""
    return f"{seeds} seeds are too few for a verdict: run at least {LEAST_SEEDS}, or call it quick."


def _few_seeds(findings: ReproductionReport) -> Iterator[str]:
    efficiencies = [claim.efficiency for claim in findings.claims if not claim.why_not]
    if said := too_few_seeds(len(findings.seeds), findings.quick, efficiencies):
        yield said


def _overloaded(findings: ReproductionReport) -> Iterator[str]:
    real: Sequence[Arm] = [arm for arm in findings.arms if not arm.emulated]
    where = findings.circumstances
    timed = any(claim.efficiency == Efficiency.REAL.value for claim in findings.claims if not claim.why_not)
    if timed and any(arm.workers * where.threads * where.jobs > where.cores for arm in real):
        yield f"real seconds of more threads than the {where.cores} cores: time at most as many, one run at a time."


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


RULES = (
    HonestyRule(1, "speed without quality", _speed_without_quality),
    HonestyRule(2, "training quality instead of test quality", _training_quality),
    HonestyRule(3, "hidden tuning runs", _hidden_tuning),
    HonestyRule(4, "other hardware for the baseline", _other_hardware),
    HonestyRule(5, "kernels instead of trainings", _kernels_only),
    HonestyRule(6, "input left out", _no_input),
    HonestyRule(7, "units without meaning", _unclear_units),
    HonestyRule(8, "speed and quality with different settings", _two_settings),
    HonestyRule(9, "inputs that are too large", _large_inputs),
    HonestyRule(10, "stopping at the best moment", _flattering_end),
    HonestyRule(11, "weak and strong scaling mixed up", _blurred_scaling),
    HonestyRule(12, "a weak baseline", _weak_baseline),
    HonestyRule(13, "too few seeds", _few_seeds),
    HonestyRule(14, "more threads than cores", _overloaded),
    HonestyRule(15, "a verdict that the figures do not give", _unfounded_verdict),
    HonestyRule(16, "a claim that cannot fail", _either_way),
)
"""The twelve, and four of our own."""
