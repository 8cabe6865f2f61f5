"""What one worker alone does to its model or optimizer is named early, with the worker and the difference, under every system."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

from polyrhythm.core.kernel.comparison import Comparison, Comparisons, Fact, Sketch, Times
from polyrhythm.core.processes import Processes
from polyrhythm.errors import CompositionError
from polyrhythm.systems import find

from .one_worker import BY_OPTIONS, CASES, OWN_RATES, RateUnderWay, StateUnderWay, WeightsUnderWay
from .scenes import EVERY_SYSTEM, go

QUICK = ("allreduce", "ssp", "mxnet", "diloco", "adpsgd")
CLIPPED = "clipped after each step, where it bites"
WORKERS_SHARE_ONE_COPY = ("hogwild", "elephas-hogwild")
WEIGHTS = ("weights loaded after attach", "weights written after step 3")
CHOOSING = tuple(name for name in EVERY_SYSTEM if find(name).chooses)
"""Two workers of these take part by turns of ten steps, so that the case may never be met: they have a test of their own below."""


def is_right(system: str, name: str) -> bool:
    """Whether what one worker does is what all have."""
    own = (system in OWN_RATES and name in BY_OPTIONS) or (system in WORKERS_SHARE_ONE_COPY and name in WEIGHTS)
    return CASES[name].refusal is None or system == "single" or own


@pytest.mark.parametrize(
    "system", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in EVERY_SYSTEM if name not in CHOOSING]
)
def test_it_is_refused_and_what_all_do_is_right(system: str) -> None:
    found = {name: case.outcome(system) for name, case in CASES.items()}
    expected = {name: ("right", "silent", "limit") if is_right(system, name) else ("refused", "limit") for name in CASES}
    expected[CLIPPED] = ("silent", "refused")  # as all write by hand, whichever worker it changes something for
    assert {name: outcome for name, outcome in found.items() if outcome not in expected[name]} == {}


@pytest.mark.parametrize(("name", "system"), [("a rate changed after step 3", "ssp"), ("weights written after step 3", "allreduce")])
def test_so_it_is_in_processes(name: str, system: str) -> None:
    assert CASES[name].outcome(system, Processes()) == "refused"


@pytest.mark.parametrize("system", ["allreduce", "ssp", "gossipgrad", "diloco", "sparknet", "mxnet"])
def test_it_is_named_before_the_next_power_of_two_of_steps(system: str) -> None:
    with pytest.raises(CompositionError, match=r"^At step 4 worker/0 has option lr 0\.05, worker/1 has option lr 0\.01: set options"):
        go(RateUnderWay(), system)


@pytest.mark.parametrize("system", ["allreduce", "byteps", "pipe-sgd"])
def test_so_are_weights_where_each_step_leaves_them_equal(system: str) -> None:
    with pytest.raises(CompositionError, match=r"^At step 4 worker/0 has .*, worker/1 has .*|written by hand at worker/1, after .*step 3"):
        go(WeightsUnderWay(), system)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(BY_OPTIONS[1:])))
def test_where_workers_are_chosen_it_is_refused_when_they_take_part(name: str) -> None:
    case = CASES[name]
    if case.refusal is None:
        go(case.train, find("fedavg", fraction=0.5, period=2), workers=4)
        return
    with pytest.raises(CompositionError) as caught:
        go(case.train, find("fedavg", fraction=0.5, period=2), workers=4)
    assert re.search(case.refusal, str(caught.value))


def compared(*values: Fact | Sketch | Times) -> list[str]:
    """The error when workers 3, 0, 1, 2 come to the same moment with these."""
    all_of_them = Comparisons()
    names = ("worker/3", "worker/0", "worker/1", "worker/2")
    return [all_of_them.add(name, Comparison("8", "step 8", {"it": value})) for name, value in zip(names, values, strict=False)]


def test_what_differs_by_rounding_or_on_other_processors_is_no_difference() -> None:
    def sketch(*values: float, kind: str = "cpu") -> Sketch:
        return Sketch(values, 1e-6, kind, "remedy.")

    *same, other = compared(sketch(3.0, 4.0), sketch(3.0, 4.0 + 1e-6), sketch(9.0, 4.0, kind="gpu"), sketch(3.0, 4.1))
    assert same == ["", "", ""]
    assert other == "At step 8 worker/2 has it of norm 5.08035, worker/3 has it of norm 5: remedy."
    assert compared(sketch(math.nan, math.inf), sketch(math.nan, math.inf)) == ["", ""]
    assert compared(sketch(3.0), sketch(math.nan))[1] == "At step 8 worker/0 has it of norm nan, worker/3 has it of norm 3: remedy."
    assert compared(sketch(1.0, 0.0), sketch(0.0, 1.0))[1] == "At step 8 worker/0 and worker/3 have it that differ: remedy."


def test_writes_that_change_nothing_are_no_difference_to_those_that_do() -> None:
    assert compared(Times(2, 4, 3, ""), Times(0, 4, 0, ""), Times(4, 4, 4, "")) == ["", "", ""]
    assert (
        compared(Times(2, 4, 3, ""), Times(0, 1, 0, "same."))[1]
        == "At step 8 worker/0 has it never, worker/3 has it 2 times, last after step 3: same."
    )


def test_groups_of_parameters_are_compared_one_by_one() -> None:
    def train(worker: Any) -> None:
        model = torch.nn.Linear(4, 1)
        groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5 if worker.rank else 0.25}]
        model, optimizer = worker.attach(model, torch.optim.SGD(groups, lr=0.1))
        for (x,) in worker.batches((torch.ones(16, 4),), batch_size=4):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

    with pytest.raises(CompositionError, match=r"worker/0 has option lr 0\.1, 0\.25, worker/1 has option lr 0\.1, 0\.5"):
        go(train)


@pytest.mark.parametrize("system", ["ssp", "downpour", "easgd", "adpsgd"])
def test_a_schedule_by_passes_may_come_to_a_step_at_another_rate_where_passes_have_other_lengths(system: str) -> None:
    def train(worker: Any) -> None:
        model = torch.nn.Linear(4, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
        for _ in range(3):
            for _, (x,) in zip(range(5 + 4 * worker.rank), worker.batches((torch.ones(96, 4),), batch_size=4), strict=False):
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            schedule.step()

    go(train, system)


@pytest.mark.parametrize("system", ["mxnet", "project-adam", "softsync"])
def test_a_state_that_is_reset_where_servers_step_is_refused(system: str) -> None:
    class Restarted(StateUnderWay):
        def attached(self, worker: Any, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
            self.fresh = optimizer.state_dict()

        def stepped(self, worker: Any, model: Any, optimizer: Any, step: int, loss: float) -> None:
            if step == 3:
                optimizer.load_state_dict(self.fresh)

    with pytest.raises(CompositionError, match=r"was given a state by load_state_dict after its first step"):
        go(Restarted(), system)
