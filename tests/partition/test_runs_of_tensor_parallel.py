"""Runs whose cut has each style of tensor parallelism: their result is that of a run whose workers have whole models."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.partition.tensor_parallel import Columns, Cube, DropByPlace, Heads, Rows, Summa, Tesseract, Wavefront
from polyrhythm.workloads.gpt import Block, GptSize

SIZE = GptSize(vocabulary=11, context=6, layers=2, width=8, heads=2)


class Texts(nn.Module):
    """Blocks of a GPT, recurrent layers, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SIZE.vocabulary, SIZE.width)
        self.blocks = nn.Sequential(*(Block(SIZE.width, SIZE.heads) for _ in range(SIZE.layers)))
        self.drop = nn.Dropout(0.2)
        self.recurrent = nn.GRU(SIZE.width, SIZE.width, 2, batch_first=True)
        self.score = nn.Linear(SIZE.width, SIZE.vocabulary)

    def forward(self, symbols: Tensor) -> Tensor:
        y: Tensor = self.score(self.recurrent(self.drop(self.blocks(self.symbols(symbols))))[0])
        return y


def train(worker: pr.Worker) -> None:
    model = Texts()
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.003))
    texts = torch.randint(SIZE.vocabulary, (24, SIZE.context + 1), generator=torch.Generator().manual_seed(0))
    for (text,) in worker.batches((texts,), batch_size=3):
        optimizer.zero_grad()
        F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()


DROP = {"drop": DropByPlace({0: ("dp",)})}
REGION: dict[str, Any] = {"unit": 4, "groups": {"*query_key_value": 3}, "data": ("dp",)}
CUTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "Heads": ({"tp": 2}, {"blocks.?": Heads(2, others={"widen": Columns(), "narrow": Rows()})}),
    "Summa": ({"row": 2, "column": 2}, {"blocks": Summa(**REGION)}),
    "Tesseract": ({"depth": 2, "row": 1, "column": 2}, {"blocks": Tesseract(**REGION)}),
    "Cube": ({"x": 1, "y": 2, "z": 2}, {"blocks": Cube(**REGION)}),
    "Wavefront": ({"layers": 2}, {"recurrent": Wavefront()}),
    "two of them": ({"row": 2, "column": 1, "layers": 2}, {"blocks": Summa(**REGION), "recurrent": Wavefront()}),
}


@cache
def whole() -> pr.Run:
    return pr.run(train, mesh=pr.Mesh(dp=2), cut=pr.Cut(DROP), on=pr.Simulator())


@pytest.mark.parametrize("name", CUTS)
def test_a_run_with_divided_products_trains_as_one_with_whole_models(name: str) -> None:
    sizes, names = CUTS[name]
    run = pr.run(train, mesh=pr.Mesh(dp=2, **sizes), cut=pr.Cut(DROP | names), on=pr.Simulator())
    assert list(run.weights) == list(whole().weights)
    for key, value in run.weights.items():
        torch.testing.assert_close(value, whole().weights[key], rtol=1e-4, atol=1e-5)


def test_real_processes_and_virtual_time_give_the_same_with_regions() -> None:
    sizes, names = CUTS["two of them"]
    runs = [pr.run(train, mesh=pr.Mesh(**sizes, dp=1), cut=pr.Cut(DROP | names), on=on) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256
