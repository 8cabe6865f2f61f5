"""A plan as a page: the table, the fronts between time, bytes, quality and cost, and the maps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.answer import PhaseMap, Plan, value_of
from polyrhythm.tools.planner.certainty import named
from polyrhythm.tools.planner.proxy.proxy_page import write_proxy_page
from polyrhythm.tools.planner.words import columns, row, sentences
from polyrhythm.tools.report.layers import IN_BYTES
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.phases import Phase, Words, phase_diagram
from polyrhythm.tools.report.render import rendered, written
from polyrhythm.tools.report.scatter import BYTES, SECONDS, ScatterAxis, ScatterPoint, scatter
from polyrhythm.tools.report.style import ON_A_PAGE


def write(plan: Plan, path: str | Path, asked: str = "") -> Path:
    """Write the page of `plan`; `asked` is the command that makes it again. The same plan gives the same bytes. Raises OSError."""
    if plan.proxy is not None:
        return write_proxy_page(plan.proxy, Path(path), asked)
    best, seeds = plan.best, ", ".join(map(str, plan.seeds_used))
    hues = hues_of(plan)
    page = rendered(
        "plan.html.jinja",
        title=f"A plan for {plan.job}: {plan.target}",
        circumstances=f"on the network {plan.network} with {plan.devices}; {', '.join(map(str, plan.workers))} workers; "
        f"least {plan.objective}; {plan.runs + plan.kept} runs in virtual time; seed{'s' * (len(plan.seeds_used) != 1)} {seeds}",
        sentences=sentences(plan),
        columns=columns(plan),
        choices=[row(plan, each) for each in (*plan.choices, plan.compared) if each is not None],
        hues=[hues[each.system] for each in (*plan.choices, plan.compared) if each is not None],
        command=best.command if best and best.sure else "",
        rehearsal=best.rehearsal if best and best.sure else "",
        code=best.code if best and best.sure else "",
        maps=[_map(each, hues) for each in plan.maps],
        fronts=_fronts(plan, hues),
        remedies=[[each.name, f"× {each.factor:.2g}"] for each in plan.remedies],
        refused=[[each.name, each.reason] for each in plan.refused],
        asked=asked,
    )
    return written(path, page)


def hues_of(plan: Plan) -> dict[str, str]:
    """The hue of each system, the same in the table and in all charts: in the order of the table, then as they appear."""
    shown = [each.system for each in (*plan.choices, plan.compared, *plan.scatter) if each is not None]
    shown += [name for each in plan.maps for name in each.systems]
    return {name: ON_A_PAGE.hues[place % len(ON_A_PAGE.hues)] for place, name in enumerate(dict.fromkeys(shown))}


def _fronts(plan: Plan, hues: Mapping[str, str]) -> list[Panel]:
    """Time against bytes, quality, and money or energy."""
    if len(plan.scatter) < 2:
        return []
    metric = plan.target.rpartition(" ")[0]
    quality = ScatterAxis(f"best {metric} of its run", log=False)
    axes = {"nbytes": BYTES, "memory": ScatterAxis("memory of a worker", IN_BYTES), "energy": ScatterAxis("energy, joules")}
    if any(each.money is not None for each in plan.scatter):
        axes["money"] = ScatterAxis("money")
    found = [_front(plan, hues, what, axes[what], f"Time and {name}") for what, name in _NAMES.items() if what in axes]
    return [*found, _front(plan, hues, "shortfall", quality, f"Time and {metric}")]


_NAMES = {"nbytes": "bytes", "memory": "memory", "energy": "energy", "money": "money"}


def _front(plan: Plan, hues: Mapping[str, str], y: str, axis: ScatterAxis, title: str) -> Panel:
    leading = {each.name for each in plan.front("seconds", y)}
    points = [
        ScatterPoint(
            named(each),
            value_of(each, "seconds"),
            each.quality if y == "shortfall" and each.quality else value_of(each, y),
            each.name in leading,
            hues[each.system],
        )
        for each in plan.scatter
        if value_of(each, y) < float("inf")
    ]
    return scatter(title, points, SECONDS, axis)


def _map(found: PhaseMap, hues: Mapping[str, str]) -> Panel:
    shown = {cell.factor: _factor(cell.factor) for cell in found.cells}
    phases = [
        Phase(str(cell.workers), shown[cell.factor], cell.winner, _ahead(cell.seconds, cell.ahead), cell.factor == 1.0)
        for cell in reversed(found.cells)
    ]
    phases.sort(key=lambda each: int(each.column))
    subtitle = f"Of {', '.join(found.systems)}: the fastest, its time to the target, and by what factor the second is slower"
    words = Words(f"{found.what.capitalize()} and workers", subtitle, "workers", f"{found.what}, times the network's")
    return phase_diagram(words, phases, hues)


def _factor(factor: float) -> str:
    return f"{factor:g}"


def _ahead(seconds: float, ahead: float | None) -> str:
    return show_seconds(seconds) + ("" if ahead is None else f", × {ahead:.2g}")
