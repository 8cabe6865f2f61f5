"""What `explain` says of a cut is what a run of it holds and sends."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.partition.explained import explain
from polyrhythm.partition.pipeline import Pipelined
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows

from .ranks import on_ranks

CUT = pr.Cut({"1": Columns(), "3": Rows()})
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 11), nn.Tanh(), nn.Linear(11, 6))


def step(place: Place, rank: int) -> Any:
    torch.manual_seed(0)
    model = make()
    CUT.apply(model, place)
    total: Tensor = model(torch.ones(3, 5)).square().sum()
    total.backward()  # type: ignore[no-untyped-call]
    size = sum(each.numel() * 4 for each in model.parameters())
    return dict(place.axes["tp"].calls), dict(place.axes["tp"].nbytes), size


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bytes_and_parameters_are_those_of_a_run(ranks: int) -> None:
    found = explain(pr.Mesh(dp=2, tp=ranks), CUT, make, torch.empty(3, 5), lambda y: y.square().sum(), MOMENTUM)
    for rank, (calls, nbytes, size) in zip(found.ranks, on_ranks(step, tp=ranks), strict=True):
        assert (rank.calls["tp"], rank.nbytes["tp"]) == (calls, nbytes)
        assert {rank.memory[role] for role in ("parameters", "gradients", "optimizer")} == {size}


def test_activations_are_what_autograd_keeps() -> None:
    """Of each sample 5, 6 and 11 numbers, the inputs of the linear layers (tanh keeps the last ones too), and 6 for the square."""
    found = explain(pr.Mesh(tp=1), CUT, make, torch.empty(3, 5), lambda y: y.square().sum(), MOMENTUM)
    assert found.ranks[0].memory["activations"] == 3 * (5 + 6 + 11 + 6) * 4


def test_models_larger_than_any_machine_are_explained() -> None:
    wide = partial(nn.Sequential, nn.Identity())
    found = explain(
        pr.Mesh(tp=2),
        pr.Cut({"1": Columns()}),
        lambda: wide(nn.Linear(200_000, 250_000)),
        torch.empty(1, 200_000, device="meta"),
        torch.sum,
        MOMENTUM,
    )
    assert found.ranks[0].memory["parameters"] == 4 * 125_000 * 200_001
    assert "tp=1: parameters 100,000,500,000" in str(found)


@pytest.mark.parametrize(
    ("mesh", "cut", "message"),
    [
        (pr.Mesh(dp=2), CUT, "has no such axis"),
        (pr.Mesh(dp=-1, tp=2), CUT, "give the size of each axis"),
        (pr.Mesh(tp=2), pr.Cut({"2": Columns()}), "2 cannot be divided by"),
        (pr.Mesh(pp=2), pr.Cut(pipeline=Pipelined()), "stages of a pipeline"),
    ],
)
def test_what_cannot_be_explained_is_refused(mesh: pr.Mesh, cut: pr.Cut, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        explain(mesh, cut, make, torch.empty(3, 5), torch.sum, MOMENTUM)
