"""Dryden et al., 2019 (SC): convolutions divided by channels and filters."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.convolution import ChannelNorm, Channels, StationaryW, StationaryX, StationaryY, WholeChannels, stationary
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.place import Place
from polyrhythm_reproductions.jobs.parts import at_every_rank, counted_place, largest_gap, sent, trained
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_SAMPLES, _CHANNELS, _FILTERS, _LAST, _SIZE, _STEPS = 2, 6, 5, 8, 7, 20
_LAYERS = ((8, 16, 1), (16, 8, 1), (8, 16, 4), (16, 16, 2))
"""Channels, filters and strides of the layers whose bytes are counted."""
_SIDE, _RANKS = 8, 4


def measure(trial: ArmTrial) -> Figures:
    """Differences of trained weights from one process, and bytes by formula."""
    x, y = StationaryX("c"), StationaryY("c")
    lines: tuple[tuple[dict[str, int], tuple[Any, Any]], ...] = (
        *(({"c": ranks}, pair) for ranks in (2, 4) for pair in ((x, x), (y, y), (x, y))),
        ({"c": 2, "f": 2}, (StationaryW("c", "f"), StationaryW("f", "c"))),
    )
    volumes = [_volumes(*layer) for layer in _LAYERS]
    grids = [_weights(c, f) * c * f for c, f in ((2, 2), (2, 4), (4, 2))]
    return {
        "difference": max(_difference(trial.seed, mesh, pair) for mesh, pair in lines),
        "x bytes": max((row[0] for row in volumes), key=lambda ratio: abs(ratio - 1)),
        "y bytes": max((row[1] for row in volumes), key=lambda ratio: abs(ratio - 1)),
        "wrong choices": float(sum(row[2] for row in volumes)),
        "weights": max(grids, key=lambda ratio: abs(ratio - 1)),
    }


def _stack(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.ModuleDict(
        {
            "first": nn.Conv2d(_CHANNELS, _FILTERS, 3, 2, 1),
            "norm": nn.BatchNorm2d(_FILTERS),
            "second": nn.Conv2d(_FILTERS, _LAST, 3, padding=1),
            "flat": nn.Flatten(),
            "last": nn.Linear(_LAST * 16, 3),
        }
    )


def _loss(model: Any, x: Tensor) -> Tensor:
    hidden = model["second"](F.gelu(model["norm"](model["first"](x))))
    return F.cross_entropy(model["last"](model["flat"](F.gelu(hidden))), torch.arange(_SAMPLES))


def _difference(seed: int, mesh: dict[str, int], pair: tuple[Any, Any]) -> float:
    def images(step: int) -> Tensor:
        return torch.randn(_SAMPLES, _CHANNELS, _SIZE, _SIZE, generator=torch.Generator().manual_seed(1000 * seed + step))

    whole = _stack(seed)
    trained(whole, lambda step: _loss(whole, images(step)), _STEPS)
    grid = "f" in mesh
    cut = Cut(
        {
            "first": pair[0],
            "norm": ChannelNorm("f", "c") if grid else ChannelNorm("c"),
            "second": pair[1],
            "flat": WholeChannels(Channels(_LAST, "c", "f" if grid else None)),
        }
    )

    def program(place: Place) -> dict[str, Tensor]:
        model, entrance = _stack(seed), Channels(_CHANNELS, "c", "f" if grid else None)
        cut.apply(model, place)
        trained(model, lambda step: _loss(model, entrance.part(images(step), place)), _STEPS)
        return dict(model.named_parameters())

    return largest_gap(at_every_rank(program, mesh), dict(whole.named_parameters()))


def _volumes(channels: int, filters: int, stride: int) -> tuple[float, float, bool]:
    """Forward bytes of stationary x and y over the formulas, and whether `stationary` takes the larger."""
    layer = nn.Conv2d(channels, filters, 3, stride, 1, bias=False).to("meta")
    outputs = layer(torch.empty(1, channels, _SIDE, _SIDE, device="meta")).shape[2] ** 2
    formulas: dict[Any, int] = {StationaryX: filters * outputs, StationaryY: channels * _SIDE**2}
    found = {}
    for member in formulas:
        place = counted_place(c=_RANKS)
        member("c").local(layer, "", place)(torch.empty(_SAMPLES, channels // _RANKS, _SIDE, _SIDE, device="meta"))
        found[member] = sent(place)
    ratios = [found[member] / (4 * _SAMPLES * formulas[member] * (_RANKS - 1) / _RANKS) for member in formulas]
    return ratios[0], ratios[1], found[type(stationary("c", layer, _SIDE**2, outputs))] > min(found.values())


def _weights(c: int, f: int) -> float:
    """A rank's share of the weights, whose gradients are all that replicas of its part exchange."""
    layer = nn.Conv2d(16, 16, 3, padding=1, bias=False).to("meta")
    local = StationaryW("c", "f").local(layer, "", counted_place(c=c, f=f))
    return sum(each.numel() for each in local.parameters()) / layer.weight.numel()


def _value(figure: str, paper: str, ours: str, unit: str = "ratio", value: float = 1.0) -> Claim:
    return Claim(
        paper=paper, ours=ours, figure=figure, unit=unit, least=value, most=value, efficiency=Efficiency.EXACT, kind=ClaimKind.VALUE
    )


REPRODUCTION = Reproduction(
    name="dryden-channels",
    systems=(),
    paper="Dryden, Maruyama, Moon, Benson, Snir, Van Essen: Channel and Filter Parallelism for Large-Scale CNN Training (SC 2019)",
    setting="A network of two convolutions and a batch norm with odd numbers of filters, trained for 20 steps on two images of 7 x 7, with "
    "stationary x, stationary y, both in turn, and stationary w, among 2 and 4 ranks. Bytes are of four layers on 8 x 8 images.",
    measure=measure,
    notes="Bytes are of the forward pass, among 4 ranks. Gradients of weights are exchanged among ranks that have the same part, so that "
    "each sends as much less as its part is smaller.",
    claims=(
        Claim(
            paper="Channels and filters can be divided without a change of what is computed.",
            ours="largest difference of any weight from those of one process after 20 steps, seven cuts",
            figure="difference",
            unit="difference",
            most=1e-4,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        _value("x bytes", "Stationary x adds up outputs: N F H' W' (p - 1) / p.", "bytes of a rank over the formula, the farthest from 1"),
        _value("y bytes", "Stationary y gathers inputs: N C H W (p - 1) / p.", "bytes of a rank over the formula, the farthest from 1"),
        _value(
            "wrong choices",
            "Stationary x is for layers with smaller outputs than inputs, y for the others.",
            "layers, of four, for which `stationary` takes the one that sends more",
            "trials",
            0.0,
        ),
        _value(
            "weights",
            "All-reduces of gradients are of 1 / (p_c p_f) of the weights.",
            "weights of a rank times p_c p_f over those of the layer, grids of 4 and 8 ranks; the farthest from 1",
        ),
        Claim(
            paper="Training of ResNets takes up to 4.1 times less time, and all-reduces 4 times less.", untestable="There are no GPUs here."
        ),
    ),
)
