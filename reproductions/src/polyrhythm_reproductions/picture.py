"""A reproduction as a picture: what was measured for each claim between its bounds, and the curves of all runs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import altair as alt
import vl_convert

from polyrhythm_reproductions.arm import Arm
from polyrhythm_reproductions.findings import Finding, ReproductionReport
from polyrhythm_reproductions.protocol import Claim

_WIDTH, _ROW, _CURVES = 520, 46, 220
_MOST_ARMS = 10
"""More lines than that cannot be distinguished; the first ones are drawn."""
_INK, _OURS, _BAND = "#222222", "#2f6fb5", "#d9ead3"

_DRAWN = re.compile(r' (?:d|transform|x|x1|x2|y|y1|y2|width|height)="[^"]*"')
"""Attributes that say where something is drawn."""
_TAIL = re.compile(r"-?\d+\.\d{2,}")
"""Numbers with more digits than a pixel needs."""


def picture(findings: ReproductionReport, bounds: Sequence[Claim]) -> str:
    """SVG: a row for each claim, one dot a seed and the wanted range shaded; below, the metric of each run over steps and over seconds."""
    parts: list[alt.Chart | alt.LayerChart] = [
        _row(finding, claim) for finding, claim in zip(findings.claims, bounds, strict=True) if finding.median is not None
    ]
    for metric in dict.fromkeys(arm.metric for arm in findings.arms if arm.curve):
        every = [arm for arm in findings.arms if arm.curve and arm.metric == metric]
        names = list(dict.fromkeys(arm.name for arm in every))
        arms = [arm for arm in every if arm.name in names[:_MOST_ARMS]]
        left_out = f"; {len(names) - _MOST_ARMS} more arms are not drawn" if len(names) > _MOST_ARMS else ""
        parts += [_curves(arms, "step", f"steps of a worker{left_out}"), _curves(arms, "seconds", f"{_seconds_title(arms)}{left_out}")]
    drawn = (
        alt.VConcatChart(vconcat=parts, spacing=14)
        .resolve_scale(x="independent", y="independent", color="independent")
        .configure(background="#ffffff", font="sans-serif", padding=8)
        .configure_title(anchor="start", frame="bounds", fontSize=12, color=_INK, fontWeight="normal")
        .configure_view(stroke=None)
    )
    return _DRAWN.sub(_short, vl_convert.vegalite_to_svg(drawn.to_dict())) + "\n"


def _short(attribute: re.Match[str]) -> str:
    """The attribute with numbers of a tenth of a pixel."""
    return _TAIL.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), attribute[0])


def _row(finding: Finding, claim: Claim) -> alt.LayerChart:
    values = [value for value in finding.values if math.isfinite(value)]
    ends = [bound for bound in (claim.least, claim.most) if math.isfinite(bound)]
    low, high = min([*values, *ends]), max([*values, *ends])
    room = 0.15 * (high - low) or 0.1 * abs(high) or 1.0
    domain = [low - room, high + room]
    band = {"from": max(claim.least, domain[0]), "to": min(claim.most, domain[1])}
    across = alt.X("from:Q").scale(domain=domain, nice=False).title(None)
    wanted = alt.Chart(alt.InlineData(values=[band])).mark_rect(color=_BAND).encode(x=across, x2="to:Q")
    seen = alt.Chart(alt.InlineData(values=[{"value": value} for value in values]))
    dots = seen.mark_point(color=_OURS, filled=True, size=45, opacity=0.7).encode(x=alt.X("value:Q").scale(domain=domain, nice=False))
    median = alt.Chart(alt.InlineData(values=[{"value": finding.median}])).mark_tick(color=_INK, thickness=2, size=26).encode(x="value:Q")
    title = f"{finding.ours}: wanted {finding.bounds} ({finding.unit}), {finding.verdict}"
    return alt.LayerChart(layer=[wanted, dots, median]).properties(width=_WIDTH, height=_ROW, title=_wrapped(title))


def _curves(arms: Sequence[Arm], over: str, title: str) -> alt.Chart:
    rows = [
        {"arm": arm.name, "run": arm.run, "step": point.step, "seconds": point.seconds, "value": point.value}
        for arm in arms
        for point in arm.curve
        if math.isfinite(point.value) and point.step > 0
    ]
    order = list(dict.fromkeys(arm.name for arm in arms))
    legend = alt.Legend() if over == "step" else None  # once for both charts of a metric
    lines: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.5, opacity=0.8)
        .encode(
            x=alt.X(f"{over}:Q").title(title),
            y=alt.Y("value:Q").scale(zero=False).title(arms[0].metric),
            color=alt.Color("arm:N").sort(order).scale(domain=order, scheme="tableau10").title(None).legend(legend),
            detail="run:N",
        )
        .properties(width=_WIDTH, height=_CURVES)
    )
    return lines


def _seconds_title(arms: Sequence[Arm]) -> str:
    return "virtual seconds" if all(arm.emulated for arm in arms) else "seconds"


def _wrapped(text: str, width: int = 88) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
