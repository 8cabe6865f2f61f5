"""Convolutions in four ways, and the work of a model: what the survey of Ben-Nun and Hoefler counts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from polyrhythm.tools.costs import training_work_depth
from polyrhythm_reproductions.jobs.convolutions import by_columns, by_tiles, by_transform, directly
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WAYS = {"direct": directly, "im2col": by_columns, "FFT": by_transform}
_SHAPES = ((2, 3, 10, 12, 4, 3), (4, 8, 16, 16, 8, 5), (1, 5, 13, 11, 3, 1))
"""Samples, channels, height, width, filters and kernel."""
_LARGE = (8, 32, 32, 32, 32)


def measure(trial: ArmTrial) -> Figures:
    """Differences from torch's convolution, buffers and multiplications, and operations that torch counts."""
    draw = torch.Generator().manual_seed(trial.seed)
    differences = dict.fromkeys([*_WAYS, "Winograd"], 0.0)
    buffers = list[float]()
    for n, channels, height, width, filters, kernel in _SHAPES:
        x = torch.randn(n, channels, height, width, generator=draw)
        weight = torch.randn(filters, channels, kernel, kernel, generator=draw) / (channels * kernel**2) ** 0.5
        expected = F.conv2d(x, weight)
        for name, way in _WAYS.items():
            differences[name] = max(differences[name], float((way(x, weight).output - expected).abs().max()))
        buffers.append(by_columns(x, weight).buffer / (n * kernel**2 * channels * expected.shape[2] * expected.shape[3]))
        if kernel == 3:
            differences["Winograd"] = float((by_tiles(x, weight).output - expected).abs().max())
    return {
        **differences,
        "buffer": max(buffers, key=lambda ratio: abs(ratio - 1)),
        "tiles": _times_fewer(3, tiles=True),
        "large kernel": _times_fewer(9),
        "small kernel": _times_fewer(1),
        "operations": _operations(trial.seed),
    }


def _times_fewer(kernel: int, tiles: bool = False) -> float:
    """By which factor a large layer takes fewer multiplications by tiles, or by transforms, than directly."""
    n, channels, height, width, filters = _LARGE
    x, weight = torch.ones(n, channels, height, width), torch.ones(filters, channels, kernel, kernel)
    other = by_tiles(x, weight) if tiles else by_transform(x, weight)
    return directly(x, weight).multiplications / other.multiplications


def _operations(seed: int) -> float:
    """The largest relative difference of twice a model's multiply-adds from what torch counts, forward and with the way back."""
    torch.manual_seed(seed)
    x = torch.randn(4, 3, 12, 12)
    found = 0.0
    for model in (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 5, stride=2), nn.Flatten(), nn.Linear(36, 7)),
        nn.Sequential(nn.Flatten(), nn.Linear(432, 16), nn.Tanh(), nn.Linear(16, 2)),
    ):
        forward, step = training_work_depth(model, (x,))
        with FlopCounterMode(display=False) as counted:
            output = model(x)
            once = counted.get_total_flops()
            torch.autograd.grad(output.sum(), list(model.parameters()))
        found = max(found, abs(2 * forward.products / once - 1), abs(2 * step.products / counted.get_total_flops() - 1))
    return found


def _same(name: str, paper: str) -> Claim:
    return Claim(
        paper=paper,
        ours=f"largest difference of {name} from torch's convolution",
        figure=name,
        unit="difference",
        most=1e-4,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


def _value(figure: str, paper: str, ours: str, unit: str, value: float) -> Claim:
    return Claim(
        paper=paper, ours=ours, figure=figure, unit=unit, least=value, most=value, efficiency=Efficiency.EXACT, kind=ClaimKind.VALUE
    )


REPRODUCTION = Reproduction(
    name="convolutions",
    systems=(),
    paper="Ben-Nun, Hoefler: Demystifying Parallel and Distributed Deep Learning (ACM Computing Surveys 2019); Chellapilla, Puri, Simard: "
    "High Performance Convolutional Neural Networks (2006); Mathieu, Henaff, LeCun: Fast Training of Convolutional Networks through FFTs "
    "(ICLR 2014); Lavin, Gray: Fast Algorithms for Convolutional Neural Networks (CVPR 2016)",
    setting="Convolutions of stride 1 without padding, of 1 to 8 channels and kernels of 1 to 5, by sums over the kernel, by one product "
    "of matrices, by Fourier transforms and by Winograd's tiles; multiplications of a layer of 32 channels and filters on 8 images of "
    "32 × 32. Work of two small models, forward and back.",
    measure=measure,
    stop="nothing is trained",
    notes="Multiplications are counted, not timed; a real transform of n numbers is counted as n log2 n of them, a complex product as "
    "four.",
    claims=(
        _same("direct", "A convolution is a sum over the places of its kernel."),
        _same("im2col", "A convolution is one product of matrices."),
        _same("FFT", "A convolution is a product of Fourier transforms."),
        _same("Winograd", "A convolution of kernel 3 is made of tiles of 2 × 2 outputs by minimal filtering."),
        _value("buffer", "The matrix of columns has K² C H' W' numbers for each image.", "numbers of the matrix over those", "ratio", 1.0),
        _value(
            "tiles",
            "F(2 × 2, 3 × 3) takes (m + r - 1)² = 16 multiplications for m² r² = 36.",
            "factor by which tiles take fewer multiplications",
            "x",
            2.25,
        ),
        Claim(
            paper="Fourier transforms take less work for large kernels.",
            ours="factor by which transforms take fewer multiplications, kernel 9",
            figure="large kernel",
            unit="x",
            least=2.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Fourier transforms take more work for small kernels.",
            ours="factor by which transforms take fewer multiplications, kernel 1",
            figure="small kernel",
            unit="x",
            most=0.8,
            efficiency=Efficiency.EXACT,
        ),
        _value(
            "operations",
            "The work of convolutions and fully connected layers is N Cout Cin H' W' Kx Ky and N Cin Cout.",
            "largest relative difference of twice that from the operations that torch counts, forward and with the way back",
            "difference",
            0.0,
        ),
    ),
)
