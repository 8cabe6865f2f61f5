"""Demystifying: the three ways to divide a network, its operators' parallelism, and what vertical and horizontal partitions send."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.hardware.devices import Device
from polyrhythm.partition.convolution import Image, SpatialPool
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline import GivenStages, GPipe, MeanLoss, Pipelined
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel import Columns, Rows, Wavefront
from polyrhythm_reproductions.jobs.differences import largest_difference
from polyrhythm_reproductions.jobs.modes import WIDTH, ResidualBlock, weights_of
from polyrhythm_reproductions.jobs.parts import at_every_rank, counted_place, largest_gap, sent
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_BATCH, _CELL = 8, 8
_SLOW = Device("slow", 100.0)
_STACKS = ((2, 6), (4, 5), (4, 12))
"""Layers and times of recurrent networks."""
_TWO_D = Cut({"*.up": Columns(), "*.down": Rows()})
_WAYS: tuple[tuple[Mesh, int, dict[str, Any]], ...] = (
    (Mesh(dp=2), 2, {}),
    (Mesh(dp=4), 4, {}),
    (Mesh(tp=2), 1, {"cut": _TWO_D}),
    (Mesh(tp=4), 1, {"cut": _TWO_D}),
    (Mesh(pp=2), 1, {"cut": Cut(pipeline=Pipelined())}),
    (Mesh(pp=4), 1, {"cut": Cut(pipeline=Pipelined(schedule=GPipe()))}),
)


def measure(trial: ArmTrial) -> Figures:
    """Differences of the three partitions and of operators from one process, the path through a recurrent network, and bytes."""
    whole = weights_of(trial.seed)
    paths = [_seconds(*stack, stack[0]) / _seconds(*stack, 1) * stack[0] * stack[1] / (sum(stack) - 1) for stack in _STACKS]
    return {
        "partitions": max(largest_difference(whole, weights_of(trial.seed, mesh, parts, **way)) for mesh, parts, way in _WAYS),
        "connected": max(_connected(trial.seed, ranks) for ranks in (2, 3, 4)),
        "pooled": max(_pooled(trial.seed, ranks) for ranks in (2, 3, 4)),
        "path": 100 * max(abs(ratio - 1) for ratio in paths),
        "horizontal": max((_horizontal(ranks) for ranks in (2, 4, 8)), key=lambda ratio: abs(ratio - 1)),
        "vertical": _vertical(),
    }


def _connected(seed: int, ranks: int) -> float:
    """The largest difference of a fully connected layer's output and gradients, in columns and in rows."""
    x = torch.randn(_BATCH, 10, generator=torch.Generator().manual_seed(seed))
    torch.manual_seed(seed)
    layer = nn.Linear(10, 14)
    layer(x).square().sum().backward()
    gradients = {name: _of(each.grad) for name, each in layer.named_parameters()}

    def program(place: Place) -> list[dict[str, Tensor]]:
        found = []
        for style in (Columns(gathered=True), Rows(whole_input=True)):
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Linear(10, 14))
            Cut({"0": style}).apply(model, place)
            model(x).square().sum().backward()
            for each in model.parameters():
                each.data = _of(each.grad)
            found.append(dict[str, Tensor](model[0].named_parameters()))
        return found

    parts = at_every_rank(program, {"tp": ranks})
    return max(largest_gap([part[way] for part in parts], gradients) for way in range(2))


def _of(gradient: Tensor | None) -> Tensor:
    assert gradient is not None
    return gradient


def _pooled(seed: int, ranks: int) -> float:
    """The largest difference of a max-pooling's output and gradient, over parts of images."""
    image, pool = Image(11, 13), nn.MaxPool2d(3, 2, 1)
    x = torch.randn(2, 3, 11, 13, generator=torch.Generator().manual_seed(seed))
    whole = x.clone().requires_grad_()
    output = pool(whole)
    output.square().sum().backward()
    small = Image(*output.shape[-2:])

    def program(place: Place) -> list[Tensor]:
        own = image.part(x, place).detach().requires_grad_()
        found = SpatialPool(image).local(nn.MaxPool2d(3, 2, 1), "pool", place)(own)
        found.square().sum().backward()
        return [small.join(found.detach(), place), image.join(_of(own.grad), place)]

    expected = [output.detach(), _of(whole.grad)]
    return max(
        float((a - b).abs().max()) for part in at_every_rank(program, {"h": ranks, "w": 1}) for a, b in zip(part, expected, strict=True)
    )


def _seconds(layers: int, times: int, ranks: int) -> float:
    """Virtual seconds of the forward pass of a recurrent network, on devices beside which the network takes no time."""

    def program(place: Place) -> float:
        local = Wavefront().local(nn.RNN(_CELL, _CELL, layers), "", place)
        began = time.perf_counter()
        local(torch.zeros(times, 4, _CELL))
        return time.perf_counter() - began

    return max(at_every_rank(program, {"layers": ranks}, Simulator(devices=_SLOW)))


def _horizontal(ranks: int) -> float:
    """Bytes of a step of a block in columns and rows, over 2 ring all-reduces of its output."""
    place = counted_place(tp=ranks)
    with torch.device("meta"):
        model = nn.Sequential(ResidualBlock())
        _TWO_D.apply(model, place)
        model(torch.empty(_BATCH, WIDTH, requires_grad=True)).sum().backward()
    return sent(place) / (2 * 2 * (ranks - 1) / ranks * _BATCH * WIDTH * 4)


def _vertical() -> float:
    """Bytes that cross the cut between two stages in a step, over an activation and its gradient."""

    def program(place: Place) -> int:
        model = nn.Sequential(ResidualBlock(), nn.Linear(WIDTH, 1))
        way = Pipelined(micro_batches=4, division=GivenStages((1, 1)))
        pipeline = way.local(model, place, MeanLoss(F.mse_loss), torch.empty(_BATCH, WIDTH))
        before = sent(place)
        pipeline.step(torch.zeros(_BATCH, WIDTH), torch.zeros(_BATCH, 1))
        return sent(place) - before

    return sum(at_every_rank(program, {"pp": 2})) / (2 * _BATCH * WIDTH * 4)


def _same(figure: str, paper: str, ours: str) -> Claim:
    return Claim(
        paper=paper,
        ours=ours,
        figure=figure,
        unit="difference",
        most=1e-5,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


def _formula(figure: str, paper: str, ours: str) -> Claim:
    return Claim(
        paper=paper,
        ours=ours,
        figure=figure,
        unit="ratio",
        least=0.99,
        most=1.01,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


REPRODUCTION = Reproduction(
    name="demystifying",
    systems=(),
    paper="Ben-Nun, Hoefler: Demystifying Parallel and Distributed Deep Learning: An In-Depth Concurrency Analysis (ACM Computing Surveys "
    "2019, arXiv:1802.09941)",
    setting="Two residual blocks trained for 20 steps of SGD with momentum on batches of 16, whole and divided by data, model and layers "
    "(pipeline) among 2 and 4 ranks; one fully connected layer, one pooling and one recurrent network among 2 to 4; bytes of one block.",
    measure=measure,
    notes="The path through a recurrent network is virtual time on devices of 100 FLOP/s, so that its cells are all there is. Data "
    "parallelism, model parallelism and pipelining are the survey's three ways to divide a network; horizontal is within a layer, "
    "vertical between layers.",
    claims=(
        _same(
            "partitions",
            "A network can be divided by data, by model and by layers.",
            "largest difference of any weight from those of one process after 20 steps, 2 and 4 ranks",
        ),
        _same(
            "connected",
            "The neurons, or the inputs, of a fully connected layer can be divided.",
            "largest difference of any weight's gradient from that of one process, in columns and in rows, 2 to 4 ranks",
        ),
        _same(
            "pooled",
            "A pooling can be divided by place.",
            "largest difference of outputs and gradients of a max-pooling of odd size, 2 to 4 ranks",
        ),
        Claim(
            paper="A recurrent network of L layers and T times has a path of L + T - 1 cells, of L T.",
            ours="largest deviation of the time of L ranks over that of one from (L + T - 1) / L T, for (L, T) of (2, 6), (4, 5), (4, 12)",
            figure="path",
            unit="%",
            most=1.0,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        _formula(
            "horizontal",
            "A horizontal partition exchanges all of a layer's activations in each pass.",
            "bytes that a rank sends for a block in a step over two ring all-reduces of its output; of 2 to 8 ranks the farthest from 1",
        ),
        _formula(
            "vertical",
            "A vertical partition sends the activations at the cut, and their gradients back.",
            "bytes between two stages in a step over those of one activation and its gradient",
        ),
    ),
)
