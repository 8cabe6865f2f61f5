"""Dryden et al., 2019 (IPDPS): convolutions over parts of images, whose margins go to neighbours."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.convolution import Image, SpatialConv, spatial_cut
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.place import Place
from polyrhythm_reproductions.jobs.budget import MemoryBudget
from polyrhythm_reproductions.jobs.parts import at_every_rank, counted_place, largest_gap, trained
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_SAMPLES, _CHANNELS, _SIZE, _STEPS = 2, 3, (22, 18), 20
_LARGE = 256
_MESHES = ({"h": 2, "w": 1}, {"h": 2, "w": 2}, {"h": 4, "w": 2})


def measure(trial: ArmTrial) -> Figures:
    """Differences of layers and of a network from one process, margins, and memory."""
    kept, whole = _step_nbytes(None)
    parts = [_step_nbytes(mesh) for mesh in ({"h": 2, "w": 2}, {"h": 4, "w": 1})]
    return {
        "layers": max(_layers(trial.seed, mesh) for mesh in _MESHES),
        "network": max(_network(trial.seed, mesh) for mesh in _MESHES),
        "margins": max((_margins(*case) for case in product((3, 5, 7), (1, 2))), key=lambda ratio: abs(ratio - 1)),
        "activations": max(4 * part[0] / kept for part in parts),
        "peak": max(4 * part[1] / whole for part in parts),
        "whole": float(_fits(trial.seed, whole / 2, None)),
        "divided": float(_fits(trial.seed, whole / 2, {"h": 2, "w": 2})),
    }


def _images(seed: int, step: int, size: tuple[int, int] = _SIZE) -> Tensor:
    return torch.randn(_SAMPLES, _CHANNELS, *size, generator=torch.Generator().manual_seed(1000 * seed + step))


def _layers(seed: int, mesh: dict[str, int]) -> float:
    """The largest difference of the outputs and gradients of layers with several kernels, strides and dilations."""
    cases = list(product((1, 3, 5, 7), (1, 2), (1, 2)))

    def layer(kernel: int, stride: int, dilation: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Conv2d(_CHANNELS, 2, kernel, stride, dilation * (kernel // 2), dilation)

    def made(module: nn.Module, value: Tensor) -> list[Tensor]:
        value = value.detach().requires_grad_()
        output = module(value)
        output.square().sum().backward()
        return [output.detach(), *(each for each in (value.grad,) if each is not None)]

    def program(place: Place) -> list[list[Tensor]]:
        found, image = [], Image(*_SIZE)
        for case in cases:
            small = Image(*layer(*case)(_images(seed, 0)).shape[-2:])
            output, gradient = made(SpatialConv(image).local(layer(*case), "", place), image.part(_images(seed, 0), place))
            found.append([small.join(output, place), image.join(gradient, place)])
        return found

    expected = [made(layer(*case), _images(seed, 0)) for case in cases]
    every = at_every_rank(program, mesh)
    return max(
        (a - b).abs().max().item()
        for part in every
        for one, other in zip(part, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def _convolutions(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(_CHANNELS, 6, 5, 2, 2, bias=False),
        nn.BatchNorm2d(6),
        nn.GELU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(6, 6, 3, padding=1),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )


def _in_parts(seed: int, place: Place, size: tuple[int, int]) -> nn.Module:
    model = _convolutions(seed)
    Cut(spatial_cut(model, (_SAMPLES, _CHANNELS, *size))).apply(model, place)
    return model


def _network(seed: int, mesh: dict[str, int]) -> float:
    """The largest difference of any weight after training."""
    labels = torch.arange(_SAMPLES)
    whole = _convolutions(seed)
    trained(whole, lambda step: F.cross_entropy(whole(_images(seed, step)), labels), _STEPS)

    def program(place: Place) -> Any:
        model, image = _in_parts(seed, place, _SIZE), Image(*_SIZE)
        trained(model, lambda step: F.cross_entropy(model(image.part(_images(seed, step), place)), labels), _STEPS)
        return dict(model.named_parameters())

    return largest_gap(at_every_rank(program, mesh), dict(whole.named_parameters()))


def _margins(kernel: int, dilation: int) -> float:
    """Bytes that a rank at the edge sends forward and backward, over a margin of dilation (K - 1) / 2 rows each way."""
    place, layer = counted_place(h=2, w=1), nn.Conv2d(_CHANNELS, 2, kernel, 1, dilation * (kernel // 2), dilation).to("meta")
    local = SpatialConv(Image(64, 32)).local(layer, "", place)
    local(torch.empty(_SAMPLES, _CHANNELS, 32, 32, device="meta", requires_grad=True)).sum().backward()
    return place.axis("h").nbytes["exchange"] / (4 * 2 * _SAMPLES * _CHANNELS * 32 * dilation * (kernel - 1) // 2)


def _step_nbytes(mesh: dict[str, int] | None) -> tuple[int, int]:
    """The bytes of tensors after the forward pass on large images, and the most in a step."""
    own, model = [_LARGE, _LARGE], _convolutions(0).to("meta")
    if mesh is not None:
        Cut(spatial_cut(model, (_SAMPLES, _CHANNELS, _LARGE, _LARGE))).apply(model, counted_place(**mesh))
        own = [_LARGE // parts for parts in mesh.values()]
    with MemoryBudget(math.inf) as budget:
        loss = _loss(model, torch.empty(_SAMPLES, _CHANNELS, *own, device="meta"))
        kept = budget.held()
        loss.backward()  # type: ignore[no-untyped-call]
    return kept, budget.most


def _loss(model: nn.Module, images: Tensor) -> Tensor:
    return F.cross_entropy(model(images), torch.arange(_SAMPLES, device=images.device))


def _fits(seed: int, nbytes: float, mesh: dict[str, int] | None) -> bool:
    """Whether a step on large images can be done where each rank may have so many bytes of tensors."""
    size = (_LARGE, _LARGE)

    def program(place: Place | None) -> bool:
        images = _images(seed, 0, size)
        model = _convolutions(seed) if place is None else _in_parts(seed, place, size)
        own = images if place is None else Image(*size).part(images, place).clone()
        try:
            with MemoryBudget(nbytes):
                _loss(model, own).backward()  # type: ignore[no-untyped-call]
        except MemoryError:
            return False
        return True

    return program(None) if mesh is None else all(at_every_rank(program, mesh))


def _equal(figure: str, paper: str, ours: str) -> Claim:
    return Claim(paper=paper, ours=ours, figure=figure, unit="difference", most=1e-4, efficiency=Efficiency.EXACT, kind=ClaimKind.VALUE)


def _value(figure: str, paper: str, ours: str, unit: str, least: float, most: float) -> Claim:
    return Claim(
        paper=paper, ours=ours, figure=figure, unit=unit, least=least, most=most, efficiency=Efficiency.EXACT, kind=ClaimKind.VALUE
    )


REPRODUCTION = Reproduction(
    name="dryden-spatial",
    systems=(),
    paper="Dryden, Maruyama, Benson, Moon, Snir, Van Essen: Improving Strong-Scaling of CNN Training by Exploiting Finer-Grained "
    "Parallelism (IPDPS 2019, arXiv:1903.06681)",
    setting="Sixteen convolutions of kernels of 1 to 7 with strides and dilations of 1 and 2, and a network with a batch norm, a pooling "
    "and two convolutions, trained for 20 steps on two images of 22 x 18, over 2, 4 and 8 parts. Memory is of images of 256 x 256.",
    measure=measure,
    notes="Statistics of batch norms are over all parts, as on one device. A rank's budget is half of the bytes that a step on whole "
    "images needs; what would exceed it is ended by an error.",
    claims=(
        _equal(
            "layers",
            "A convolution over parts of images with margins is that over whole ones.",
            "largest difference of outputs and of gradients of inputs, sixteen layers on 2, 4 and 8 ranks",
        ),
        _equal("network", "Networks train as on one device.", "largest difference of any weight after 20 steps, 2, 4 and 8 ranks"),
        _value(
            "margins",
            "What is exchanged is a margin of half a kernel.",
            "bytes that a rank sends in a step over those of its margin and of the gradient of its neighbour's, kernels 3 to 7, dilations "
            "1 and 2; the farthest from 1",
            "ratio",
            1.0,
            1.0,
        ),
        _value(
            "activations",
            "Activations are divided by the number of parts.",
            "bytes of tensors of a rank after the forward pass, times 4, over those on whole images; the larger of 2 x 2 and 4 x 1 parts",
            "ratio",
            0.0,
            1.1,
        ),
        _value(
            "peak",
            "So is all that a step needs.",
            "most bytes of tensors of a rank in a step, times 4, over those on whole images; the larger of 2 x 2 and 4 x 1 parts",
            "ratio",
            0.0,
            1.1,
        ),
        _value(
            "whole",
            "Samples that are too large for one device's memory cannot be trained there.",
            "steps within the budget on whole images",
            "trials",
            0.0,
            0.0,
        ),
        _value("divided", "They can be where they are divided.", "steps within the budget on 2 x 2 parts", "trials", 1.0, 1.0),
        Claim(paper="Near-linear scaling on 16 to 2,048 GPUs.", untestable="There are no GPUs here."),
    ),
)
