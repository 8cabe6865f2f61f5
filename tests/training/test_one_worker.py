"""What one worker alone does to its model or optimizer is named early, with the worker and the difference, under every system."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from kinds import fewest

from polyrhythm.errors import CompositionError
from polyrhythm.kernel.comparison import Comparison, Comparisons, Sketch
from polyrhythm.processes import Processes
from polyrhythm.systems import find

from .one_worker import BY_OPTIONS, CASES, OWN_RATES, RateUnderWay, WeightsUnderWay
from .scenes import EVERY_SYSTEM, go

WORKERS_SHARE_ONE_COPY = ("hogwild", "elephas-hogwild")
WEIGHTS = ("weights loaded after attach", "weights written after step 3")
CHOOSING = ("fedavg", "fedprox", "fedadam")
"""Two workers of these take part by turns of ten steps, so that the case may never be met: they have a test of their own below."""


def is_right(system: str, name: str) -> bool:
    """Whether what one worker does is what all have."""
    own = (system in OWN_RATES and name in BY_OPTIONS) or (system in WORKERS_SHARE_ONE_COPY and name in WEIGHTS)
    return CASES[name].said is None or system == "single" or own


@pytest.mark.parametrize("system", fewest(tuple(name for name in EVERY_SYSTEM if name not in CHOOSING)))
def test_it_is_refused_and_what_all_do_is_right(system: str) -> None:
    found = {name: case.outcome(system) for name, case in CASES.items()}
    expected = {name: ("right", "silent") if is_right(system, name) else ("refused", "limit") for name in CASES}
    assert {name: outcome for name, outcome in found.items() if outcome not in expected[name]} == {}


@pytest.mark.parametrize(("name", "system"), [("a rate changed after step 3", "ssp"), ("weights written after step 3", "allreduce")])
def test_so_it_is_in_processes(name: str, system: str) -> None:
    assert CASES[name].outcome(system, Processes()) == "refused"


@pytest.mark.parametrize("system", ["allreduce", "ssp", "gossipgrad", "diloco", "sparknet", "mxnet"])
def test_it_is_named_before_the_next_power_of_two_of_steps(system: str) -> None:
    with pytest.raises(CompositionError, match=r"^At step 4 worker/0 has option lr 0\.05, worker/1 has option lr 0\.01: do at every"):
        go(RateUnderWay(), system)


@pytest.mark.parametrize("system", ["allreduce", "byteps", "pipe-sgd"])
def test_so_are_weights_where_each_step_leaves_them_equal(system: str) -> None:
    with pytest.raises(CompositionError, match=r"^At step 4 worker/0 has .*, worker/1 has .*|written by hand at worker/1, after .*step 3"):
        go(WeightsUnderWay(), system)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(BY_OPTIONS[1:])))
def test_where_workers_are_chosen_it_is_refused_when_they_take_part(name: str) -> None:
    case = CASES[name]
    if case.said is None:
        go(case.train, find("fedavg", fraction=0.5, tau=2), workers=4)
        return
    with pytest.raises(CompositionError) as caught:
        go(case.train, find("fedavg", fraction=0.5, tau=2), workers=4)
    assert re.search(case.said, str(caught.value))


def test_what_differs_by_rounding_or_on_other_processors_is_no_difference() -> None:
    def comparison(*values: float, kind: str = "cpu") -> Comparison:
        return Comparison("step 8", {}, {"weights": Sketch(values, 1e-6, kind)}, "remedy.")

    compared = Comparisons()
    assert compared.add("worker/3", comparison(3.0, 4.0)) == ""
    assert compared.add("worker/0", comparison(3.0, 4.0 + 1e-6)) == ""
    assert compared.add("worker/1", comparison(9.0, 4.0, kind="gpu")) == ""
    assert (
        compared.add("worker/2", comparison(3.0, 4.1))
        == "At step 8 worker/2 has weights of norm 5.08035, worker/3 has weights of norm 5: remedy."
    )
    assert compared.add("worker/2", comparison(3.0, float("nan"))).startswith("At step 8 worker/2")


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
