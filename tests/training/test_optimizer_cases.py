"""Optimizers of other makers, and changes to one that is attached: as in a plain loop, or refused with what fits."""

from __future__ import annotations

import pytest
import torch
from kinds import fewest
from torch import nn
from toy import network

from polyrhythm.core.processes import Processes
from polyrhythm.core.strategy.optimizers.needs_closure import closure_use

from .optimizer_cases import (
    CASES,
    Calls,
    Delegates,
    Indexes,
    Inherits,
    Looks,
    Own,
    Raises,
    ReturnsEarly,
    TakesClosure,
    Twice,
    Wraps,
    compiled,
)
from .scenes import EVERY_SYSTEM, flat, go
from .unstepped import Lookahead, Sam

NEVER_CALLED = {("signsgd", "a closure that no code shows")}
"""Its merge moves the weights by the sign of the votes, and never calls step() of the attached optimizer: no error there."""


@pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))
def test_each_is_right_or_refused(system: str) -> None:
    found = {name: case.outcome(system) for name, case in CASES.items() if (system, name) not in NEVER_CALLED}
    assert {name: outcome for name, outcome in found.items() if outcome not in ("right", "refused", "limit")} == {}


@pytest.mark.parametrize(
    ("name", "system"),
    [("a group added", "byteps"), ("SAM itself", "ssp"), ("complex parameters", "mxnet"), ("a closure in a loop", "allreduce")],
)
def test_so_it_is_in_processes(name: str, system: str) -> None:
    assert CASES[name].outcome(system, Processes()) == "refused"


@pytest.mark.parametrize("system", ["byteps", "mxnet-worker-update", "powersgd"])
def test_a_compiled_model_trains_to_the_same_bits(system: str) -> None:
    assert torch.equal(flat(go(compiled(), system)), flat(go(compiled(lambda model: model), system)))


def test_what_needs_a_closure_is_read_from_its_code() -> None:
    model: nn.Module = network()
    base = torch.optim.SGD(model.parameters(), lr=0.1)
    can = [Own, TakesClosure, Looks, ReturnsEarly, Twice]
    cannot = [Calls, Raises, Indexes, Wraps, Delegates, Inherits]
    made = [each(model.parameters()) for each in (*can, *cannot)]
    assert [closure_use(each).needs for each in made] == [False] * len(can) + [True] * len(cannot)
    wrappers = [Lookahead(base), base, torch.optim.Adam(model.parameters()), Sam(model.parameters(), torch.optim.SGD, lr=0.1)]
    assert [closure_use(each).needs for each in (*wrappers, torch.optim.LBFGS(model.parameters()))] == [False] * 3 + [True] * 2
    assert [closure_use(each(model.parameters())).often for each in can] == [False, False, False, True, True]
    assert not closure_use(Lookahead(base)).often
