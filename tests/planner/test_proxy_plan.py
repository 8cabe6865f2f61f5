"""Plans by proxies, from the family to the answer."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measured import CurvePoint, TrainedRun
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.proxy.proxy_answer import missed_sizes
from polyrhythm.tools.planner.proxy.proxy_page import write_proxy_page
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyPlan
from polyrhythm.tools.planner.proxy.proxy_request import ProxyPlanning, ProxyRequest
from polyrhythm.tools.planner.proxy.proxy_table import show_proxy
from polyrhythm.tools.planner.proxy.sizes import SizedModel
from report.page_laws import empty_tables, fixed_colours

from .jobs import InTurn


@cache
def data() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=draw)
    return x, x.square().mean(1, keepdim=True)


def regression(worker: pr.Worker, epochs: int = 1, learning_rate: float = 0.1, batch_size: int = 8, width: int = 64) -> None:
    """Squares by one hidden layer."""
    torch.manual_seed(worker.seed)
    x, y = data()
    model: Any = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=learning_rate))
    worker.evaluate(lambda found: {"loss": (found(x) - y).square().mean().item()})
    for _ in range(epochs):
        for a, b in worker.batches((x, y), batch_size=batch_size):
            optimizer.zero_grad()
            (model(a) - b).square().mean().backward()
            optimizer.step()


def planned(to: str = "loss=0.4", sizes: tuple[str, ...] = ("width=6,12,24",), **rest: Any) -> ProxyPlan:
    whole = PlanRequest(to, "slow", "cpu-core", (2,), budget=1e6, systems=rest.pop("systems", ["allreduce", "sparknet"]), **rest)
    request = ProxyRequest(whole, sizes, 1)
    found = ProxyPlanning(request, regression, "regression", InTurn(), whole.invocation("job.py")).plan().proxy
    assert found is not None
    return found


@pytest.fixture(scope="module")
def plan() -> ProxyPlan:
    """One that comes to its target."""
    return planned(systems=["allreduce"])


def test_every_method_gets_a_time_an_interval_and_a_probability(plan: ProxyPlan) -> None:
    assert {each.system for each in plan.choices} == {"single", "allreduce"}
    for each in plan.choices:
        assert 0 < each.seconds.low <= each.seconds.middle <= each.seconds.high < math.inf
        assert each.samples.low <= each.samples.middle <= each.samples.high
    assert sum(each.first for each in plan.choices) == pytest.approx(1.0)
    assert [each.seconds.middle for each in plan.choices] == sorted(each.seconds.middle for each in plan.choices)


@dataclass
class Runs:
    """A planner of one method, of which the run at each size had so many samples and came to the target, missed it or failed."""

    done: dict[tuple[Any, int], TrainedRun]
    sizes: tuple[SizedModel, ...] = tuple(SizedModel((), parameters) for parameters in (100, 200, 300, 400))

    @property
    def tuning(self) -> Any:
        return self

    @property
    def trials(self) -> Any:
        return self

    def at(self, method: Candidate, size: SizedModel) -> int:
        return size.parameters

    def samples(self, run: int, seed: int) -> float:
        end = self.done[run, seed].end
        return math.inf if end is None else end.samples


def test_sizes_at_which_a_method_missed_the_target_are_found_and_runs_that_had_no_time_are_not() -> None:
    def run(samples: float, reached: int = -1, error: str = "") -> TrainedRun:
        return TrainedRun([CurvePoint(1.0, 1.0, samples, 0.1)], reached, 1.0, 1.0, samples, 1, error=error)

    runs: Any = Runs({(100, 0): run(150.0, reached=0), (200, 0): run(150.0), (300, 0): run(250.0), (400, 0): run(1.0, error="diverged")})
    assert missed_sizes(runs, Candidate("ssp", 2), {each.parameters: {0: 100.0} for each in runs.sizes}) == [300, 400]


def test_the_true_model_is_counted_and_never_trained(plan: ProxyPlan) -> None:
    assert plan.parameters == 64 * 8 + 64 + 64 + 1
    assert max(point.parameters for point in plan.points) < plan.parameters
    assert plan.true == {"width": 64}


def test_every_figure_has_its_origin(plan: ProxyPlan) -> None:
    assert {each.kind for each in plan.origins} == {"measured", "derived", "assumed"}
    written = Console(file=io.StringIO(), width=150, record=True)
    show_proxy(plan, written)
    text = written.export_text()
    assert all(each.figure in text for each in plan.origins)
    assert "The model was not trained" in text


def test_the_command_runs_the_true_model_with_the_derived_rate(plan: ProxyPlan) -> None:
    best = plan.choices[0]
    assert f"--system {best.system}" in best.command
    assert "--set width=64" in best.command
    assert f"--set learning_rate={best.settings['learning_rate']:g}" in best.command
    assert "--network slow" in best.rehearsal
    assert plan.rate is not None
    assert plan.sizes[0].rate is not None
    assert plan.rate <= plan.sizes[0].rate


def test_a_page_and_json_have_the_same_figures(plan: ProxyPlan, tmp_path: Path) -> None:
    page = write_proxy_page(plan, tmp_path / "plan.html", "polyrhythm plan job.py --proxy width").read_text()
    assert "Where the figures come from" in page
    assert fixed_colours(page) == set()
    assert empty_tables(page) == []
    assert "polyrhythm plan job.py --proxy width" in page
    assert page == write_proxy_page(plan, tmp_path / "again.html", "polyrhythm plan job.py --proxy width").read_text()


@pytest.mark.long
def test_a_target_that_small_models_do_not_reach_is_said_and_an_easier_one_taken() -> None:
    found = planned("loss=1e-7", systems=["allreduce"])
    assert found.asked != found.target
    assert "The smallest proxy does not come to loss 1e-07" in found.remarks[0]
    assert found.choices or found.obstacle


@pytest.mark.long
def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    first = planned(systems=["allreduce"], cache=tmp_path)
    second = planned(systems=["allreduce"], cache=tmp_path)
    assert first.runs > 0
    assert second.runs == 0
    assert first.choices == second.choices


@pytest.mark.long
def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "planning-proxy.md"
    (example,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(example, str(page), "exec", dont_inherit=True), {"__name__": "__main__"})
    assert "should bring the model of 2,561 parameters to loss 0.4 first" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("to", "words"), [("accuracy=0.9", "gives no value of accuracy: it gives loss"), ("loss=50", "meets loss 50 already")]
)
def test_a_target_that_says_nothing_is_refused(to: str, words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        planned(to, systems=["allreduce"])


def test_what_a_plan_by_proxies_cannot_be_is_refused() -> None:
    whole = PlanRequest("loss=1", objective="bytes")
    with pytest.raises(CompositionError, match="least time"):
        ProxyRequest(whole)
    with pytest.raises(CompositionError, match="--proxy width, or auto"):
        ProxyRequest(PlanRequest("loss=1"), ())
    with pytest.raises(CompositionError, match="0 seeds"):
        ProxyRequest(PlanRequest("loss=1"), seeds=0)
