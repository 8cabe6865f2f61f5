"""A first look at the smallest size of a family: whether it measures the target, and whether its schedule depends on its length."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.core.records.metrics import show_metric
from polyrhythm.errors import CompositionError
from polyrhythm.tools.planner.look import Look
from polyrhythm.tools.planner.proxy.sizes import SizedModel
from polyrhythm.tools.planner.scenario import Scenario


def looked_at(scenario: Scenario, size: SizedModel, seconds: float) -> tuple[Scenario, list[str]]:
    """The scenario with what first runs of a size showed, each of so many seconds, and what there is to say of the JOB.

    Raises CompositionError where the JOB gives no value of the target's metric, and where its untrained model meets the target already.
    """
    small = scenario.elsewhere(settings={**scenario.settings, **dict(size.settings)})
    look, target = Look(small, seconds), scenario.target
    seen = look.observed()
    if target.metric not in seen.metrics:
        names, whole = look.all_metrics(5 * seconds)
        seen = replace(seen, metrics=seen.metrics | names)
        if whole and target.metric not in seen.metrics:
            given = ", ".join(sorted(seen.metrics))
            remedy = f"it gives {given}" if given else "it must give it to worker.evaluate or worker.report"
            raise CompositionError(f"{scenario.job} gives no value of {target.metric}: {remedy}.")
    if seen.untrained is not None and target.met_by(seen.untrained):
        raise CompositionError(
            f"The untrained model of the smallest size meets {target} already: its {target.metric} is {show_metric(seen.untrained)}. Give "
            "a target that training has to reach."
        )
    length = scenario.length
    remarks = []
    if seen.scheduled and length is not None:
        remarks.append(
            f"The schedule of the optimizer depends on {length.name}: every size trains with {length.name}={length.own}, and the answer "
            "holds for a training of that length."
        )
    return scenario.elsewhere(observed=seen), remarks
