"""`plan_layouts`: how to divide a model among workers, and what its replicas exchange."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyrhythm.core.records.progress import ProgressLine, board
from polyrhythm.core.simulator import Simulator
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.tools.layouts.enumeration import Enumeration
from polyrhythm.tools.layouts.explanation import LayoutRefusal
from polyrhythm.tools.layouts.job import LayoutJob
from polyrhythm.tools.layouts.layout_plan import LayoutPlan, PlannedLayout
from polyrhythm.tools.layouts.machines import Machines
from polyrhythm.tools.layouts.screening import ScreenedLayout, Screening, room_lacking
from polyrhythm.tools.layouts.short_runs import ShortRuns, TrainedLayout
from polyrhythm.tools.layouts.space import LayoutSpace


def plan_layouts(
    job: LayoutJob,
    *,
    on: Simulator,
    workers: int,
    memory: float | str | Sequence[float | str] | None = None,
    space: LayoutSpace | None = None,
    runs: ShortRuns | None = None,
) -> LayoutPlan:
    """The layouts with which `workers` workers can train `job` on the machines of a simulator, the best first.

    Every mesh of the workers is tried, in every order of its axes that is on other lines, with all of `space`. Memory is looked at first:
    what does not fit in `memory`, such as "2 GB" for each worker or a size for each, is refused with the smallest change that fits. For the
    others the seconds of a step are predicted. The best are then trained with real gradients in virtual time, as `runs` says, and come
    first, by their seconds to a loss. Stages and shares are in proportion to the workers' speeds. `print(plan)` shows it.

    Raises PolyrhythmErrors for what cannot be asked; layouts that cannot be are in `refused`.
    """
    trials, machines = runs or ShortRuns(), Machines.of(on, workers, memory)
    enumeration = Enumeration(job, machines, space or LayoutSpace())
    with board(1 + trials.layouts, wanted=True) as line:
        found = _screened(enumeration, Screening(job, machines), line)
        refused = [
            *enumeration.refused,
            *(LayoutRefusal(each.candidate.name, room_lacking(each, found)) for each in found if not each.fits),
        ]
        order = sorted((each for each in found if each.fits), key=lambda each: each.seconds)
        trained: dict[int, TrainedLayout] = {}
        for candidate in trials.chosen([each.candidate for each in order]):
            line.begin(candidate.name)
            try:
                trained[id(candidate)] = trials.run(candidate, job, on)
            except PolyrhythmError as problem:
                refused.append(LayoutRefusal(candidate.name, str(problem)))
                order = [each for each in order if each.candidate is not candidate]
            line.end(candidate.name)
    target = trials.target
    if target is None and trained:
        target = sorted(each.lowest for each in trained.values())[(len(trained) - 1) // 2]
    return LayoutPlan(_planned(order, trained, target), tuple(refused), target if trained else None)


def _screened(enumeration: Enumeration, screening: Screening, line: ProgressLine) -> list[ScreenedLayout]:
    """All candidates, and those with more micro-batches under way; what cannot be is among the refused ones of the enumeration."""
    found = list[ScreenedLayout]()
    for candidate in enumeration.candidates():
        line.remark(f"{len(found)} layouts are known")
        try:
            found.append(screening.screened(candidate))
            if (deeper := screening.deeper(candidate)) is not None:
                found.append(screening.screened(deeper))
        except CompositionError as problem:
            enumeration.refused.append(LayoutRefusal(candidate.name, str(problem)))
    return found


def _planned(order: list[ScreenedLayout], trained: dict[int, TrainedLayout], target: float | None) -> tuple[PlannedLayout, ...]:
    """Those that were trained by their seconds to the target, or else by their loss, then the others in their order."""
    found = []
    for each in order:
        seen = trained.get(id(each.candidate))
        found.append(PlannedLayout(each, seen, None if seen is None or target is None else seen.seconds_to(target)))

    def place(layout: PlannedLayout) -> tuple[bool, float, float]:
        if layout.trained is None:
            return True, layout.screened.seconds, 0.0
        return False, math.inf if layout.seconds is None else layout.seconds, layout.trained.loss

    return tuple(sorted(found, key=place))
