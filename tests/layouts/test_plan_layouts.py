"""Laws of the planner of layouts: what it says of time and memory is what a run shows, and what it offers can be run."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.partition import Activations, Columns, DelayedPipeline, OneForwardOneBackward, Pipelined, Recompute, Rows, Zero
from polyrhythm.tools.layouts.agreement import kendall
from polyrhythm.tools.layouts.axis_times import AxisTimes, rounds_of
from polyrhythm.tools.layouts.candidate import LayoutCandidate
from polyrhythm.tools.layouts.enumeration import Enumeration
from polyrhythm.tools.layouts.machines import Machines
from polyrhythm.tools.layouts.meshes import meshes
from polyrhythm.tools.layouts.screening import Screening, room_lacking
from polyrhythm.workloads.gpt import Gpt

from .jobs import RULES, SIZE, job, simulator, two_sites

DILOCO = pr.systems.find("diloco", period=4)
TP = pr.Cut.by_rules(Gpt(SIZE), RULES).names


def staged(**options: Any) -> pr.Cut:
    return pr.Cut(pipeline=Pipelined(micro_batches=4, **options))


LAYOUTS: list[tuple[pr.Mesh, pr.Cut, Any]] = [
    (pr.Mesh(dp=4), pr.Cut(), "allreduce"),
    (pr.Mesh(dp=4), pr.Cut(), {"dp": DILOCO}),
    (pr.Mesh(site=2, dp=2), pr.Cut(), {"site": DILOCO, "dp": "allreduce"}),
    *((pr.Mesh(site=2, dp=2), pr.Cut(), {"site": DILOCO, "dp": Zero(stage)}) for stage in (1, 2, 3)),
    (pr.Mesh(dp=2, tp=2), pr.Cut(TP), "allreduce"),
    (pr.Mesh(dp=2, tp=2), pr.Cut(TP), {"dp": DILOCO}),
    (pr.Mesh(pp=4), staged(), "allreduce"),
    (pr.Mesh(pp=4), staged(schedule=OneForwardOneBackward((4, 4, 2, 1))), "allreduce"),
    (pr.Mesh(pp=4), staged(schedule=DelayedPipeline()), "allreduce"),
    (pr.Mesh(pp=2, dp=2), staged(boundary=Activations(4, 8)), "allreduce"),
    (pr.Mesh(pp=2, dp=2), staged(memory=Recompute()), {"dp": Zero(1)}),
    (pr.Mesh(pp=2, tp=2), pr.Cut(TP, Pipelined(micro_batches=4)), "allreduce"),
    (pr.Mesh(dp=2, pp=2), staged(), "allreduce"),
]


@pytest.mark.parametrize(("mesh", "cut", "strategy"), LAYOUTS, ids=lambda each: repr(each)[:60])
def test_a_step_takes_what_was_predicted(mesh: pr.Mesh, cut: pr.Cut, strategy: Any) -> None:
    """Within a tenth of the simulator's, where the groups of an axis within a replica do not share a slow line."""
    on, candidate = simulator(), LayoutCandidate(mesh, cut, strategy, {})
    predicted = Screening(job(), Machines.of(on, 4, None)).screened(candidate)
    seen = pr.ShortRuns(steps=9, last=1).run(candidate, job(), on)
    assert predicted.seconds == pytest.approx(seen.step_seconds, rel=0.1)


def test_tensor_parallelism_over_slow_lines_takes_no_longer_than_predicted() -> None:
    """All groups are taken to be at the same place of a step, which is the slowest that it can be."""
    on, candidate = simulator(), LayoutCandidate(pr.Mesh(tp=2, dp=2), pr.Cut(TP), "allreduce", {})
    predicted = Screening(job(), Machines.of(on, 4, None)).screened(candidate).seconds
    seen = pr.ShortRuns(steps=5, last=1).run(candidate, job(), on).step_seconds
    assert 0.95 * seen < predicted < 2 * seen


def losses(**arguments: Any) -> list[float]:
    candidate = LayoutCandidate(arguments["mesh"], arguments["cut"], arguments["strategy"], {})
    return list(pr.ShortRuns(steps=4, last=1).run(candidate, job(), simulator(two_sites(1e9, 1e-4))).losses)


def test_what_it_offers_runs_and_has_the_loss_of_one_process() -> None:
    plan = pr.plan_layouts(job(), on=simulator(), workers=2, space=pr.LayoutSpace(rules=(RULES,)).exact, runs=pr.ShortRuns(layouts=0))
    alone = losses(mesh=pr.Mesh(dp=1), cut=pr.Cut(), strategy="allreduce")
    assert len(plan.layouts) == 7, "an all-reduce, three of ZeRO, tensor parallelism, two pipelines (one fits the latency)"
    for layout in plan.layouts:
        assert losses(**layout.arguments) == pytest.approx(alone, rel=1e-4), layout.candidate.name


@pytest.mark.long
def test_the_layout_that_it_chooses_runs_on_real_processes() -> None:
    plan = pr.plan_layouts(
        job(), on=simulator(), workers=2, space=pr.LayoutSpace(rules=(RULES,)), runs=pr.ShortRuns(layouts=2, steps=4, last=2)
    )
    real = pr.run(job().training(3), on=pr.Processes(), **plan.best.arguments)  # type: ignore[arg-type]
    virtual = pr.run(job().training(3), on=simulator(), **plan.best.arguments)  # type: ignore[arg-type]
    assert real.final["loss"] == pytest.approx(virtual.final["loss"], rel=1e-5)


@pytest.mark.long
def test_all_layouts_of_four_workers_run_and_have_the_loss_of_one_process() -> None:
    space = pr.LayoutSpace(rules=(RULES,)).exact
    plan = pr.plan_layouts(job(), on=simulator(), workers=4, space=space, runs=pr.ShortRuns(layouts=0))
    alone = losses(mesh=pr.Mesh(dp=1), cut=pr.Cut(), strategy="allreduce")
    assert len(plan.layouts) > 20
    for layout in plan.layouts:
        assert losses(**layout.arguments) == pytest.approx(alone, rel=1e-3), layout.candidate.name


@pytest.mark.long
def test_over_a_slow_line_go_stages_or_local_steps_and_layers_are_divided_inside() -> None:
    space = pr.LayoutSpace(zero=(), rules=(RULES,), boundaries=(pr.partition.Exact(),), micro_batches=(2,))
    plan = pr.plan_layouts(job(), on=simulator(), workers=4, space=space, runs=pr.ShortRuns(layouts=3, steps=6, last=2))
    best = plan.best.screened
    far = {axis: sent for axis, sent in best.links.items() if any(here != there for here, there in sent)}
    assert set(far) <= {"pp", "dp", "site and dp"}
    assert "every 10 steps" in best.candidate.name or "pp" in far
    assert all(here == there for here, there in best.links.get("tp", {}))
    assert len(plan.trained) == 3
    assert len({each.candidate.kind for each in plan.trained}) == 3
    assert plan.regret is not None
    assert plan.regret >= 0
    assert plan.target == sorted(each.trained.lowest for each in plan.trained if each.trained)[1]
    times = [math.inf if each.seconds is None else each.seconds for each in plan.trained]
    assert times == sorted(times)
    assert times[0] < math.inf
    run = pr.run(job().training(2), on=simulator(), **plan.best.arguments)  # type: ignore[arg-type]
    assert run.summary.steps == 2
    assert "regret of its choice" in str(plan)
    assert "east to west" in str(plan)


@pytest.mark.long
def test_without_a_network_replicas_are_fastest_and_with_little_memory_parts_are() -> None:
    space = pr.LayoutSpace(among=(), rules=(RULES,), boundaries=(pr.partition.Exact(),), schedules=(OneForwardOneBackward(),))
    ask = partial(pr.plan_layouts, job(), on=simulator(pr.Instant()), workers=2, space=space, runs=pr.ShortRuns(layouts=0))
    fast = ask()
    assert dict(fast.best.candidate.mesh.axes) == {"dp": 2}
    replicas = max(each.screened.peak for each in fast.layouts)
    small = ask(memory=min(each.screened.peak for each in fast.layouts) + 1)
    assert 0 < len(small.layouts) < len(fast.layouts)
    assert all(each.screened.peak < replicas for each in small.layouts)


def test_what_does_not_fit_lacks_what_the_formula_says() -> None:
    on = simulator(pr.Instant())
    candidate = LayoutCandidate(pr.Mesh(dp=2), pr.Cut(), "allreduce", {"mesh": "dp 2", "among replicas": "allreduce"})
    smaller = LayoutCandidate(pr.Mesh(dp=2), pr.Cut(), {"dp": Zero(3)}, {"mesh": "dp 2", "among replicas": "ZeRO 3"})
    peak = Screening(job(), Machines.of(on, 2, None)).screened(candidate).peak
    screening = Screening(job(), Machines.of(on, 2, [peak - 4096, peak]))
    refused = screening.screened(candidate)
    assert (refused.excess, refused.worker, refused.fits) == (4096, 0, False)
    found = room_lacking(refused, [refused, screening.screened(smaller)])
    assert found.startswith("does not fit by 4.1 kB at worker 0")
    assert found.endswith("the smallest change that fits is among replicas ZeRO 3 for allreduce")
    assert "parameters" in found
    assert "nothing that was tried fits" in room_lacking(refused, [refused])


def test_stages_and_shares_are_in_proportion_to_speeds() -> None:
    devices = Fleet((pr.Device("slow", 1e9),), (Mixed((1.0, 0.25)),))
    space = pr.LayoutSpace(rules=(RULES,)).exact
    candidates = list(Enumeration(job(), Machines.of(simulator(pr.Instant(), devices), 2, None), space).candidates())
    [staged] = [each for each in candidates if each.cut.pipeline is not None]
    assert staged.cut.pipeline is not None
    sizes = staged.cut.pipeline.division.sizes(6, 2)
    assert sizes[0] > sizes[1]
    [divided] = [each for each in candidates if each.cut.names]
    assert divided.cut.names["blocks.0.widen"] == Columns(weights=(1.0, 0.25))
    equal = LayoutCandidate(divided.mesh, pr.Cut(TP), "allreduce", {})
    screening = Screening(job(), Machines.of(simulator(pr.Instant(), devices), 2, None))
    assert screening.screened(divided).seconds < 0.75 * screening.screened(equal).seconds


@pytest.mark.parametrize("workers", [1, 2, 6, 8])
def test_meshes_have_all_workers_and_none_is_twice(workers: int) -> None:
    found = list(meshes(Machines.of(simulator(), workers, None)))
    assert {mesh.workers for mesh in found} == {workers}
    assert len(found) == len(set(found))
    near = list(meshes(Machines.of(simulator(pr.Instant()), workers, None)))
    assert len({tuple(sorted(mesh.axes)) for mesh in near}) == len(near), "without lines all orders are alike"


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_rounds_send_what_an_axis_counts(operation: str, size: int) -> None:
    times = AxisTimes([list(range(size))], Machines.of(simulator(pr.Instant()), size, None))
    for nbytes in (size * (size - 1) * 12, size * (size - 1) * 120_000):
        sent = sum(times.links({(operation, nbytes): 3}).values())
        counted = 3 * nbytes * size
        whole = rounds_of(operation, nbytes, size).few and operation == "all_reduce"
        assert sent == (counted * size / 2 if whole else counted), "few bytes go to all at once"


def test_rank_agreement_is_kendalls() -> None:
    assert kendall([1, 2, 3, 4], [1, 2, 3, 4]) == 1
    assert kendall([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    assert kendall([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / (2 * 3) ** 0.5)
    assert kendall([1, 1], [1, 2]) is None


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(CompositionError, match="workers=0 is no number of workers"):
        pr.plan_layouts(job(), on=simulator(), workers=0)
    with pytest.raises(CompositionError, match="charges whole steps as they were measured"):
        pr.plan_layouts(job(), on=simulator(devices=Profile("known", (0.1,))), workers=2)
    with pytest.raises(CompositionError, match="memory has 1 sizes for 2 workers"):
        pr.plan_layouts(job(), on=simulator(), workers=2, memory=["1 GB"])
    with pytest.raises(CompositionError, match="as many targets as inputs"):
        pr.LayoutJob(nn.Identity, nn.functional.mse_loss, torch.optim.SGD, (torch.ones(3), torch.ones(2)), 1)
    with pytest.raises(CompositionError, match="no more last steps than steps"):
        pr.ShortRuns(steps=2)


def test_what_cannot_be_is_said_of_each_layout() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.layer(value)
            return found

    data = (torch.ones(9, 4), torch.ones(9, 4))
    odd = pr.LayoutJob(Whole, nn.functional.mse_loss, partial(torch.optim.SGD, lr=0.1), data, 3)
    plan = pr.plan_layouts(odd, on=simulator(pr.Instant()), workers=2, runs=pr.ShortRuns(layouts=0))
    reasons = {each.what: each.why for each in plan.refused}
    assert "cannot be divided among 2 replicas" in reasons["Mesh(dp=2)"]
    assert "has no method sequence()" in reasons["Mesh(pp=2)"]
    assert "Nothing says how its layers are divided" in reasons["Mesh(tp=2)"]
    assert not plan.layouts
    with pytest.raises(CompositionError, match="No layout fits"):
        _ = plan.best


def test_systems_that_do_not_fit_are_refused_and_others_are_planned() -> None:
    space = pr.LayoutSpace(among=("gaia", pr.systems.find("sparknet", period=3)), zero=(), schedules=())
    plan = pr.plan_layouts(job(), on=simulator(pr.Instant()), workers=2, space=space, runs=pr.ShortRuns(layouts=0))
    names = [each.candidate.name for each in plan.layouts]
    assert "dp 2, allreduce" in names
    assert "dp 2, sparknet every 3 steps" in names


def test_given_styles_divide_layers() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))

    data = (torch.ones(8, 4), torch.zeros(8, 4))
    given = pr.LayoutJob(make, nn.functional.mse_loss, partial(torch.optim.SGD, lr=0.1), data, 4)
    space = pr.LayoutSpace(styles=({"0": Columns(), "2": Rows()},))
    plan = pr.plan_layouts(given, on=simulator(pr.Instant()), workers=2, space=space, runs=pr.ShortRuns(layouts=0))
    [divided] = [each for each in plan.layouts if each.candidate.cut.names]
    assert "dividing 0, 2" in divided.candidate.name


def test_a_late_pipeline_whose_replicas_share_weights_is_refused() -> None:
    with pytest.raises(CompositionError, match="take a schedule without delay"):
        pr.run(
            job().training(1), mesh=pr.Mesh(dp=2, pp=2), cut=staged(schedule=DelayedPipeline()), strategy={"dp": Zero(1)}, on=simulator()
        )
