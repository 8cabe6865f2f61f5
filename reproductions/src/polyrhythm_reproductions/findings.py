"""The findings of a reproduction: the figures of every seed, the verdicts, and the runs behind them. `conduct` makes the report; the page,
the picture and the rules read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from polyrhythm.systems.published_verdicts import MEDIAN_ONLY, NOT_REPRODUCED, REPRODUCED, UNTESTABLE, PublishedVerdict, Verdict
from polyrhythm.tools.report.estimates import LEAST_REPETITIONS, median_interval
from polyrhythm.tools.report.repeats import spread
from polyrhythm_reproductions.arm import Arm
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Reproduction

LEAST_SEEDS = LEAST_REPETITIONS
"""As many seeds does a verdict that is published have at least."""


class Finding(msgspec.Struct, kw_only=True):
    """One claim and what was measured for it: `values` by seed, their median, and a 95 % interval of it (see `median_interval`).

    `bounds` is `least` and `most` in words; one that is None does not bound. `kind` is that of the claim, `changed` the change that was
    made after a run. `beside` is another figure that is shown with it, with `beside_values` by seed.
    """

    paper: str
    ours: str
    figure: str
    unit: str
    bounds: str
    efficiency: str
    verdict: Verdict
    least: float | None = None
    most: float | None = None
    values: list[float] = []
    median: float | None = None
    low: float | None = None
    high: float | None = None
    why_not: str = ""
    kind: str = ClaimKind.EFFECT.value
    changed: str = ""
    beside: str = ""
    beside_values: list[float] = []


class Circumstances(msgspec.Struct, kw_only=True):
    """The time and the machine of the runs: `cores`, the `load` average at the beginning, the runs that shared them, `seconds` in all."""

    command: str
    cores: int
    jobs: int
    threads: int
    load: float
    seconds: float
    versions: dict[str, str]


class ReproductionReport(msgspec.Struct, kw_only=True):
    """The report of a reproduction, with all that its page shows. `quick` ones are no published verdict. `tuning_runs` are by arm."""

    name: str
    systems: list[str] = []
    paper: str
    setting: str
    notes: str = ""
    stop: str
    baseline: str
    scaling: str
    machines: str = ""
    quick: bool = False
    seeds: list[int]
    verdict: Verdict
    claims: list[Finding]
    arms: list[Arm]
    tuning_runs: dict[str, int]
    circumstances: Circumstances


def judge(reproduction: Reproduction, figures: Sequence[Mapping[str, float]]) -> list[Finding]:
    """A finding for each claim, from the `figures` of each seed. Raises KeyError for a figure that was not measured."""
    return [_finding(claim, figures) for claim in reproduction.claims]


def renewed(findings: ReproductionReport, reproduction: Reproduction) -> ReproductionReport:
    """The same measurements, judged and described as `reproduction` has it now. Raises KeyError if a claim has no measured figure."""
    rows = {claim.figure: claim.values for claim in findings.claims if claim.values}
    rows |= {claim.beside: claim.beside_values for claim in findings.claims if claim.beside}
    figures = [{name: values[k] for name, values in rows.items()} for k in range(len(findings.seeds))]
    claims = judge(reproduction, figures)
    return msgspec.structs.replace(
        findings,
        systems=list(reproduction.systems),
        paper=reproduction.paper,
        setting=reproduction.setting,
        notes=reproduction.notes,
        verdict=verdict_of(claims),
        claims=claims,
    )


def verdict_of(findings: Sequence[Finding]) -> Verdict:
    """The least of the verdicts on the claims that can be tested; of a paper of which nothing can be tested, that."""
    verdicts = {finding.verdict for finding in findings}
    return next((each for each in (NOT_REPRODUCED, MEDIAN_ONLY, REPRODUCED) if each in verdicts), UNTESTABLE)


def summed(findings: ReproductionReport) -> PublishedVerdict:
    """The verdict of findings."""
    verdicts = [claim.verdict for claim in findings.claims]
    untestable = verdicts.count(UNTESTABLE)
    return PublishedVerdict(
        findings.name,
        findings.systems,
        findings.verdict,
        verdicts.count(REPRODUCED),
        verdicts.count(MEDIAN_ONLY),
        len(verdicts) - untestable,
        untestable,
        len(findings.seeds),
    )


def verdict_on(values: Sequence[float], least: float | None, most: float | None) -> Verdict:
    """Reproduced if every one of the `values` is within the bounds, or else in the median only if their median is.

    What is not a number is in none. None does not bound.
    """

    def within(value: float) -> bool:
        return (-math.inf if least is None else least) <= value <= (math.inf if most is None else most)

    if any(map(math.isnan, values)) or not within(spread(values).median):
        return NOT_REPRODUCED
    return REPRODUCED if all(map(within, values)) else MEDIAN_ONLY


def _finding(claim: Claim, figures: Sequence[Mapping[str, float]]) -> Finding:
    values = [] if claim.untestable else [float(each[claim.figure]) for each in figures]
    found = Finding(
        paper=claim.paper,
        ours=claim.ours,
        figure=claim.figure,
        unit=claim.unit,
        bounds="" if claim.untestable else claim.bounds,
        efficiency=claim.efficiency.value,
        verdict=UNTESTABLE if claim.untestable else NOT_REPRODUCED,
        least=claim.least if math.isfinite(claim.least) else None,
        most=claim.most if math.isfinite(claim.most) else None,
        values=values,
        why_not=claim.untestable,
        kind=claim.kind.value,
        changed=claim.changed,
        beside=claim.beside,
        beside_values=[float(each[claim.beside]) for each in figures] if claim.beside else [],
    )
    if values:
        found.verdict = verdict_on(values, found.least, found.most)
        if not any(map(math.isnan, values)):
            found.median, (found.low, found.high) = spread(values).median, median_interval(values)
    return found
