"""A reproduction as a page: the paper's claims, compared with the measurements, and everything that it takes to judge that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.systems.published_verdicts import MEDIAN_ONLY, REPRODUCED, UNTESTABLE
from polyrhythm.tools.report.repeats import spread
from polyrhythm_reproductions.arm import Arm
from polyrhythm_reproductions.findings import Finding, ReproductionReport
from polyrhythm_reproductions.protocol import ClaimKind, Scaling


def page(findings: ReproductionReport) -> str:
    """The page as Markdown; its picture is NAME.svg next to it."""
    return "\n".join(_lines(findings)) + "\n"


def _lines(findings: ReproductionReport) -> Iterator[str]:
    where = findings.circumstances
    yield f"# {findings.name}"
    yield ""
    yield f"*This page is written by `{where.command}`; do not edit it.*"
    yield ""
    yield f"**{findings.verdict.capitalize()}**: {counted(findings)}. {findings.paper}. Systems: {_systems(findings)}."
    yield ""
    if findings.quick:
        yield "**A quick run**: less of everything and few seeds. It shows that the experiment works, and is no verdict."
        yield ""
    yield findings.setting
    yield ""
    for efficiency, claims in groupby(_by_efficiency(findings.claims), key=lambda claim: claim.efficiency):
        yield f"## {efficiency[0].upper()}{efficiency[1:]}"
        yield ""
        yield "| the paper's claim | here | wanted | measured | verdict |"
        yield "|---|---|---|---|---|"
        yield from (_row(claim) for claim in claims)
        yield ""
    untestable = [claim for claim in findings.claims if claim.verdict == UNTESTABLE]
    if untestable:
        yield "## What cannot be tested here"
        yield ""
        yield from (f"- {claim.paper} {claim.why_not}" for claim in untestable)
        yield ""
    if any(claim.values for claim in findings.claims):
        yield f"![What was measured, and between which bounds it was wanted]({findings.name}.svg)"
        yield ""
    yield from _arms(findings)
    yield from _circumstances(findings)


def counted(findings: ReproductionReport) -> str:
    """The number of claims that were reproduced: "2 of 4 claims reproduced, 1 in the median only; 1 cannot be tested here"."""
    testable = [claim for claim in findings.claims if claim.verdict != UNTESTABLE]
    if not testable:
        return "none of its claims can be tested here"
    reproduced = sum(claim.verdict == REPRODUCED for claim in testable)
    median_only = sum(claim.verdict == MEDIAN_ONLY for claim in testable)
    untestable = len(findings.claims) - len(testable)
    rest = f", {median_only} in the median only" if median_only else ""
    rest += f"; {untestable} cannot be tested here" if untestable else ""
    return f"{reproduced} of {len(testable)} claims reproduced{rest}"


def measured(claim: Finding) -> str:
    """The median, and the interval where it is wider: "0.97 (0.96 to 0.98)"."""
    if claim.median is None or claim.low is None or claim.high is None:
        return "not a number"
    beside = f"; {claim.beside}: {_number(spread(claim.beside_values).median)}" if claim.beside_values else ""
    if claim.low == claim.high:
        return f"{_number(claim.median)}{beside}"
    return f"{_number(claim.median)} ({_number(claim.low)} to {_number(claim.high)}){beside}"


def wanted(claim: Finding) -> str:
    """The bounds, whether they are a margin, and what was changed after a run: "no worse: at most 1.05 ratio"."""
    margin = "no worse: " if claim.kind == ClaimKind.NO_WORSE.value else ""
    return f"{margin}{claim.bounds} {_unit(claim.unit)}".rstrip() + (f". *Changed after a run: {claim.changed}.*" if claim.changed else "")


def _row(claim: Finding) -> str:
    cells = (claim.paper, claim.ours, wanted(claim), measured(claim), claim.verdict)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _by_efficiency(claims: Sequence[Finding]) -> list[Finding]:
    return sorted((claim for claim in claims if claim.verdict != UNTESTABLE), key=lambda claim: claim.efficiency)


def _arms(findings: ReproductionReport) -> Iterator[str]:
    if not findings.arms:
        return
    yield "## Runs"
    yield ""
    scaling = "" if findings.scaling == Scaling.NONE.value else f" Scaling is {findings.scaling}."
    yield f"Medians over seeds, and the least and the greatest. Training stops {findings.stop}.{scaling}"
    if findings.machines:
        yield f"Arms run on different machines: {findings.machines.rstrip('.')}."
    yield ""
    yield "| arm | workers | batch of one, of all | steps | final | seconds | sent | tuning runs |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(arm.name for arm in findings.arms):
        yield _arm_row(name, [arm for arm in findings.arms if arm.name == name], findings)
    yield ""
    yield from _settings(findings)


def _arm_row(name: str, arms: Sequence[Arm], findings: ReproductionReport) -> str:
    first = arms[0]
    final = spread([arm.final for arm in arms]).shown(_number, never="diverged").replace("\n", " ")
    seconds = spread([arm.seconds for arm in arms]).shown(show_seconds).replace("\n", " ")
    sent = spread([float(arm.bytes_sent) for arm in arms]).shown(show_bytes).replace("\n", " ")
    clock = "virtual" if first.emulated else "real"
    batches = f"{first.batch}, {first.global_batch} of {first.dataset}"
    shown = f"{name} (the baseline)" if name == findings.baseline else name
    cells = (shown, first.workers, batches, first.steps, f"{final} {first.metric}", f"{seconds}, {clock}", sent)
    return f"| {' | '.join(map(str, cells))} | {findings.tuning_runs.get(name, 0)} |"


def _settings(findings: ReproductionReport) -> Iterator[str]:
    yield "<details><summary>Settings of the first seed</summary>"
    yield ""
    for arm in findings.arms:
        if arm.seed == findings.seeds[0]:
            yield f"- {arm.name}: `{arm.settings}`"
    yield ""
    yield "</details>"
    yield ""


def _circumstances(findings: ReproductionReport) -> Iterator[str]:
    where = findings.circumstances
    data = sorted({f"{arm.data}, {arm.data_wait}" for arm in findings.arms})
    versions = ", ".join(f"{name} {number}" for name, number in where.versions.items())
    yield "## How it was run"
    yield ""
    yield f"- `{where.command}`: seeds {_listed(findings.seeds)}, {where.seconds:g} s."
    yield f"- {where.cores} cores, {where.jobs} processes of {where.threads} thread each; load {where.load:g} at the beginning. {versions}."
    if data:
        yield f"- Data: {'; '.join(data)}. Metrics are of held-out data, none of which are trained on."
    if findings.notes:
        yield f"- {findings.notes}"
    yield (
        "- Bounds were fixed before the first run; where one was changed after it, its row says so, and where settings were, the notes do. "
        "Seeds decide weights and the order of samples, not the data. The rules of [honest reports](../honest-reports.md) hold."
    )


def _systems(findings: ReproductionReport) -> str:
    return ", ".join(f"`{system}`" for system in findings.systems) or "none"


def _unit(unit: str) -> str:
    return "" if unit in ("1", "x") else unit


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _listed(seeds: Sequence[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
