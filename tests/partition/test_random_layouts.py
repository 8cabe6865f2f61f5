"""The law of all laws: a layout never changes results. Random meshes, cuts, schedules, ZeRO stages and models equal one process."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.partition import Columns, Pipelined, Zero

from .layouts import BATCH, STEPS, Drawn, Net, drawn, mean_square

QUICK, ALL = 24, 300


def train(worker: pr.Worker, drawn: Drawn, rate: float | None = None) -> None:
    """By Adam in double precision, or at a `rate` by SGD in mixed precision: Adam makes the rounding of a small gradient a step."""
    torch.manual_seed(worker.rank)  # everybody gets the weights of the first
    model = Net(drawn.width, drawn.hidden, drawn.tied)
    if rate is not None:
        model.float()  # autocast leaves double precision as it is
    if worker.rank == 0:
        torch.manual_seed(7)
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.3, 0.3) if parameter.requires_grad else None
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if rate is not None:
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    model, optimizer = worker.attach(model, optimizer, loss=mean_square)
    x = torch.randn(BATCH * STEPS, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = x if rate is None else x.float()
    loss = torch.zeros(())
    for inputs, targets in worker.batches((x, x.sin()), batch_size=BATCH // worker.replicas):
        optimizer.zero_grad()
        for part, wanted in zip(inputs.chunk(drawn.accumulated), targets.chunk(drawn.accumulated), strict=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=rate is not None):
                loss = worker.train_step(part, wanted)
        if drawn.clip is not None:
            worker.clip_gradients(drawn.clip)
        optimizer.step()
    worker.report(loss=worker.mean(loss.float()))


def runs(seed: int, rate: float | None = None) -> tuple[Drawn, pr.Run, pr.Run]:
    """The run of a seed, and that of one process with the same global batches."""
    layout = drawn(seed)
    program = partial(train, drawn=layout, rate=rate)
    run = pr.run(program, mesh=layout.mesh, cut=layout.cut, strategy=layout.strategy or "allreduce", on=pr.Simulator(), seed=3)
    whole = pr.run(program, mesh=pr.Mesh(dp=1), on=pr.Simulator(), seed=3)
    assert run.summary.samples == whole.summary.samples
    assert list(run.weights) == list(whole.weights)
    return layout, run, whole


def check(seed: int) -> None:
    layout, run, whole = runs(seed)
    for name, value in whole.weights.items():
        found = run.weights[name].view(value.shape)
        torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{seed}: {layout}\n{name}: {text}")  # type: ignore[misc]
    if layout.accumulated == 1:  # else it is that of the last part, which is another one for each replica
        assert run.summary.final["loss"] == pytest.approx(whole.summary.final["loss"], rel=1e-3)


@pytest.mark.parametrize("seed", [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(QUICK, ALL))])
def test_a_random_layout_trains_as_one_process(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", [*range(ALL, ALL + 4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(ALL + 4, ALL + 60))])
def test_a_random_layout_trains_as_one_process_in_mixed_precision(seed: int) -> None:
    """Layers compute in bfloat16, whose rounding is all that differs: a wrong factor would change weights as much again."""
    layout, run, whole = runs(seed, rate=1e-3)
    start = pr.run(partial(train, drawn=layout, rate=0.0), mesh=pr.Mesh(dp=1), on=pr.Simulator(), seed=3)
    for name, value in whole.weights.items():
        change = (value - start.weights[name]).norm()
        assert (run.weights[name].view(value.shape) - value).norm() <= 0.1 * change, f"{seed}: {layout}\n{name}"


ILLEGAL: list[tuple[dict[str, Any], str]] = [
    ({"mesh": pr.Mesh(tp=2), "cut": pr.Cut({"layers.*.up": Columns("cp")})}, "has no such axis"),
    ({"mesh": pr.Mesh(tp=2), "cut": pr.Cut({"layers.*.norm": Columns("tp")})}, "divides nn.Linear"),
    ({"mesh": pr.Mesh(tp=2), "cut": pr.Cut({"first": Columns("tp")})}, "tied to a weight"),
    ({"mesh": pr.Mesh(pp=7), "cut": pr.Cut(pipeline=Pipelined())}, "stages"),
    ({"mesh": pr.Mesh(tp=2), "cut": pr.Cut({"layers.*.up": Columns("tp", weights=(1.0,))})}, "weights"),
    (
        {"mesh": pr.Mesh(dp=2, tp=2), "cut": pr.Cut({"layers.*.up": Columns("tp")}), "strategy": {"tp": Zero(1)}},
        "name a data axis|not one of them",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), ILLEGAL)
def test_an_illegal_layout_is_refused_with_the_reason(arguments: dict[str, Any], message: str) -> None:
    layout = Drawn(4, 6, True, 1, None, pr.Mesh(dp=1), pr.Cut(), {})
    with pytest.raises(CompositionError, match=message):
        pr.run(partial(train, drawn=layout), on=pr.Simulator(), **arguments)
