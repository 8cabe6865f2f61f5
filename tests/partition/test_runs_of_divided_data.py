"""Laws of runs whose sequences, images or experts are divided: a layout never changes results, and the training function is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.partition.convolution import Channels, Distribution, HybridCut, Image, StationaryX, StationaryY, WholeChannels, from_whole
from polyrhythm.partition.convolution import spatial_cut as by_place
from polyrhythm.partition.experts import Experts, MixtureOfExperts, Samplewise
from polyrhythm.partition.sequence import DotProductAttention, HeadTail, RingAttention, Tokens, Tokenwise

LENGTH, WIDTH, SIZE, SAMPLES, BATCH = 9, 8, 12, 24, 6
TOKENS = Tokens(LENGTH, "cp", HeadTail())


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inside, self.outside = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attention = DotProductAttention(causal=True)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.inside(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        found: Tensor = x + self.outside(self.attention(*heads).transpose(1, 2).flatten(2))
        return found


class Reader(nn.Module):
    """Two blocks of attention on images as sequences of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.blocks, self.last = nn.Linear(SIZE, WIDTH), nn.Sequential(Blocks(), Blocks()), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.blocks(torch.tanh(self.enter(x[:, 0, :LENGTH]))).mean(1))
        return found


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.experts = nn.Linear(WIDTH, WIDTH), MixtureOfExperts(WIDTH, 5, 4, capacity_factor=1.0, balance=0.0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.tanh(self.first(x))
        found, auxiliary = self.experts(x)
        return x + found, auxiliary


class Asker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.last = Mixed(), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        found, auxiliary = self.mixed(x[:, 0, 0, :WIDTH])
        scores: Tensor = self.last(found) + auxiliary
        return scores


def viewer() -> nn.Sequential:
    block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.GELU())
    return nn.Sequential(nn.Conv2d(1, 4, 5, 2, 2), nn.ReLU(), block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


SHAPE = (BATCH, 1, SIZE, SIZE)
PLACES = Distribution((), "h", "w")
HYBRID = [PLACES, PLACES, Distribution(("w",), "h"), Distribution(("w", "h"))]


def hybrid() -> Any:
    cut = HybridCut(viewer(), SHAPE)
    return from_whole(cut.styles(HYBRID), cut.entrance(HYBRID))


LAYOUTS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], dict[str, int]]] = {
    "sequence": (
        Reader,
        lambda: {"blocks": Tokenwise(TOKENS, enters=1, leaves=1, inside=(RingAttention(TOKENS),))},
        {"cp": 3},
    ),
    "images": (viewer, lambda: from_whole(by_place(viewer(), SHAPE), Image(SIZE, SIZE)), {"h": 2, "w": 2}),
    "images and samples": (viewer, hybrid, {"h": 2, "w": 2}),
    "channels": (
        viewer,
        lambda: from_whole(
            {"0": StationaryY("c"), "2.0": StationaryX("c"), "3": WholeChannels(Channels(4, "c", None))}, Channels(1, "c", None)
        ),
        {"c": 2},
    ),
    "experts": (Asker, lambda: {"mixed": Samplewise("ep", (Experts("ep"),))}, {"ep": 4}),
}


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(SAMPLES, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    return x, x[:, 0, 0, :3].argmax(1)


def training(make: Callable[[], nn.Module]) -> Callable[[pr.Worker], None]:
    def train(worker: pr.Worker) -> None:
        model = make()
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        model, optimizer = worker.attach(model, optimizer)
        for _ in worker.epochs(2):
            for x, y in worker.batches(data(), batch_size=BATCH):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    return train


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_run_on_divided_data_ends_with_the_weights_of_whole_replicas(name: str) -> None:
    make, cut, sizes = LAYOUTS[name]
    divided = pr.run(training(make), mesh=pr.Mesh(dp=2, **sizes), cut=pr.Cut(cut()), on=pr.Simulator())
    whole = pr.run(training(make), workers=2, on=pr.Simulator())
    assert list(divided.weights) == list(whole.weights)
    for key, value in divided.weights.items():
        torch.testing.assert_close(value, whole.weights[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "cut", "why"),
    [
        (Reader, {"blocks": Tokenwise(TOKENS, 1, 1)}, "DotProductAttention"),
        (Asker, {"mixed": Samplewise("cp")}, "MixtureOfExperts"),
        (lambda: nn.Sequential(nn.MultiheadAttention(4, 2)), {"0": Tokenwise(TOKENS)}, "MultiheadAttention"),
        (lambda: nn.Sequential(nn.Conv1d(4, 2, 3)), {"0": Tokenwise(TOKENS)}, "Conv1d"),
        (lambda: nn.Sequential(nn.BatchNorm1d(4)), {"0": Samplewise("cp")}, "BatchNorm1d"),
    ],
)
def test_a_part_of_a_model_that_needs_others_data_is_refused_without_a_style_for_it(make: Any, cut: Any, why: str) -> None:
    with pytest.raises(CompositionError, match=why):
        pr.run(training(make), mesh=pr.Mesh(dp=1, cp=2), cut=pr.Cut(cut), on=pr.Simulator())
