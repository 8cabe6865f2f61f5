"""Colossal-AI: one training program for all modes of parallelism, and tensor parallelism in one to three dimensions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn

from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline import Pipelined
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style
from polyrhythm.partition.tensor_parallel import Columns, Cube, Rows, Summa, Tesseract
from polyrhythm.partition.tensor_parallel.grid import Features
from polyrhythm.partition.zero import Zero
from polyrhythm_reproductions.jobs.differences import largest_difference
from polyrhythm_reproductions.jobs.modes import WIDTH, ResidualBlock, weights_of
from polyrhythm_reproductions.jobs.parts import counted_place, kept_numel, sent
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_SIDE = 144
"""The samples, inputs and outputs of the layer that is counted: a multiple of all numbers of ranks."""
_NUMBER = 4
_ONE_D: dict[str, Style] = {"*.up": Columns(), "*.down": Rows()}
_MODES: dict[str, tuple[Mesh, int, dict[str, Any]]] = {
    "data": (Mesh(dp=4), 4, {}),
    "ZeRO 3": (Mesh(dp=4), 4, {"strategy": {"dp": Zero(3)}}),
    "1D": (Mesh(tp=4), 1, {"cut": Cut(_ONE_D)}),
    "2D": (Mesh(row=2, column=2), 1, {"cut": Cut({"[12]": Summa()})}),
    "2.5D": (Mesh(depth=2, row=2, column=2), 1, {"cut": Cut({"[12]": Tesseract()})}),
    "3D": (Mesh(x=2, y=2, z=2), 1, {"cut": Cut({"[12]": Cube()})}),
    "pipeline": (Mesh(pp=2), 1, {"cut": Cut(pipeline=Pipelined())}),
    "data and 1D": (Mesh(dp=2, tp=2), 2, {"cut": Cut(_ONE_D)}),
    "data, pipeline and 1D": (Mesh(dp=2, pp=2, tp=2), 2, {"cut": Cut(_ONE_D, Pipelined())}),
}


def measure(trial: ArmTrial) -> Figures:
    """Differences of weights after training in each mode, and what a rank sends and keeps of one layer."""
    whole = weights_of(trial.seed)
    found = [weights_of(trial.seed, mesh, replicas, **layout) for mesh, replicas, layout in _MODES.values()]
    calls = _calls_of_a_pair()
    return {
        "difference": max(largest_difference(whole, each) for each in found),
        "sums forward": calls[0],
        "sums backward": calls[1],
        **_counted(),
    }


def _calls_of_a_pair() -> tuple[int, int]:
    """The all-reduces of a block in columns and rows, in its forward and its backward pass."""
    place = counted_place(tp=4)
    with torch.device("meta"):
        model = nn.Sequential(ResidualBlock())
        Cut(_ONE_D).apply(model, place)
        calls = place.axis("tp").calls
        loss = model(torch.empty(8, WIDTH, requires_grad=True)).sum()
        forward = Counter(calls)
        loss.backward()
    return forward.total(), (calls - forward).total()


def _counted() -> Figures:
    """For each number of dimensions what a rank has of the weights and keeps of the inputs, and what it sends, over the formulas."""
    found: dict[str, list[tuple[float, float, float]]] = {"2D": [], "2.5D": [], "3D": []}
    ratios = []
    for q in (2, 3):
        plane = _layer(Summa(), row=q, column=q)
        found["2D"].append(_over(plane, q**2, q**2, 6 * (q - 1) / q / q))
        for d in (2, 4):
            deep = _layer(Tesseract(), depth=d, row=q, column=q)
            found["2.5D"].append(_over(deep, q**2, d * q**2, 3 * (q - 1) * (d + 1) / (d * q) / q))
            ratios.append(deep[2] / plane[2])
        found["3D"].append(_over(_layer(Cube(), x=q, y=q, z=q), q**3, q**3, 6 * (q - 1) / q**3))
    figures = {"2.5D over 2D": max(ratios)}
    for name, rows in found.items():
        memory = max(abs(part - 1) for row in rows for part in row[:2])
        figures |= {f"{name} memory": 100 * memory, f"{name} bytes": max(row[2] for row in rows)}
    return figures


def _over(layer: tuple[int, int, int], weights: float, inputs: float, traffic: float) -> tuple[float, float, float]:
    """What is measured over what is published: the parts of weights and of inputs, and the matrices that are sent."""
    matrix = _SIDE * _SIDE
    return layer[0] * weights / matrix, layer[1] * inputs / matrix, layer[2] / (_NUMBER * matrix * traffic)


def _layer(style: Any, **sizes: int) -> tuple[int, int, int]:
    """Of one layer at a rank the elements of its weights, and those that it keeps of its inputs; and the bytes that it sends."""
    place: Place = counted_place(**sizes)
    layers = style.layers(place)
    grid = layers.grid
    grid.batch.samples = _SIDE
    with torch.device("meta"):
        local = layers.linear(nn.Linear(_SIDE, _SIDE, bias=False), "", place, Features(_SIDE))
        inputs = torch.empty(grid.own_samples(), grid.sizes(_SIDE, grid.column)[0], requires_grad=True)
    weights = list(local.parameters())
    kept = kept_numel(lambda: local(inputs), weights)
    moved = [name for name in sizes if name != "depth"]
    return sum(each.numel() for each in weights), kept, sent(place, *moved)


def _memory(figure: str, paper: str) -> Claim:
    return Claim(
        paper=paper,
        ours="largest deviation of a rank's elements of weights and of inputs that are kept from the formula, 2 and 3 ranks a side",
        figure=f"{figure} memory",
        unit="%",
        least=0.0,
        most=0.0,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


def _bytes(figure: str, paper: str) -> Claim:
    return Claim(
        paper=paper,
        ours="bytes that a rank sends for a layer of 144 x 144 on 144 samples, forward and backward, over the formula; the larger of 2 and "
        "3 ranks a side",
        figure=f"{figure} bytes",
        unit="ratio",
        least=0.95,
        most=1.05,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


REPRODUCTION = Reproduction(
    name="colossal-ai",
    systems=(),
    paper="Li et al.: Colossal-AI: A Unified Deep Learning System For Large-Scale Parallel Training (2021, arXiv:2110.14883), with the "
    "tensor parallelism of Shoeybi et al. (1D, 2019), Xu et al. (2D, 2021), Wang et al. (2.5D, 2021) and Bian et al. (3D, 2021)",
    setting="Two residual blocks (1,400 parameters) trained for 20 steps of SGD with momentum on batches of 16, in one process and on nine "
    "meshes of 2 to 8 ranks: data, ZeRO stage 3, 1D, 2D, 2.5D, 3D, pipeline, and two combinations. Bytes and memory are of one layer, "
    "on axes that count.",
    measure=measure,
    notes="Formulas of bytes are those of Colossal-AI's pages, for equal matrices of inputs, weights and outputs; all-reduces of gradients "
    "over depth are data parallelism and are left out. The formula for 3D counts six moves of a matrix, which need the gathered "
    "input and weights until the backward pass. Then the inputs that are kept are no longer 1/q³; our layer gathers them twice, sends "
    "eight, and keeps 1/q³.",
    claims=(
        Claim(
            paper="Modes of parallelism are chosen in a configuration, and the training program stays as it is.",
            ours="largest difference of any weight from those of one process after 20 steps, on nine meshes; only arguments of run differ",
            figure="difference",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="1D: a layer in columns and one in rows need one all-reduce in the forward pass.",
            ours="operations among ranks in the forward pass of a block",
            figure="sums forward",
            unit="1",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="1D: and one in the backward pass.",
            ours="operations among ranks in the backward pass of a block",
            figure="sums backward",
            unit="1",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        _memory("2D", "2D: weights and activations of a rank are 1/q²."),
        _bytes("2D", "2D: a rank sends 6 (q - 1) / q rows of blocks."),
        _memory("2.5D", "2.5D: weights of a rank are 1/q², activations 1/dq²."),
        _bytes("2.5D", "2.5D: a rank sends 3 (q - 1) (d + 1) / dq rows of blocks."),
        Claim(
            paper="2.5D sends less than 2D with as many ranks on a side.",
            ours="bytes of a rank with 2 and 4 layers of depth over those without, the largest",
            figure="2.5D over 2D",
            unit="ratio",
            most=0.8,
            efficiency=Efficiency.EXACT,
        ),
        _memory("3D", "3D: weights and activations of a rank are 1/q³."),
        _bytes("3D", "3D: a rank sends 6 (q - 1) / q³ matrices."),
        Claim(paper="Training is up to 2.76 times as fast.", untestable="It is a time on 64 GPUs."),
    ),
)
