"""TensorFlow Doing HPC: four mini-apps as dataflow over ranks."""

from __future__ import annotations

import time
from collections import Counter

import torch
from torch import Tensor

from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.network import Network
from polyrhythm.partition.axis import near_equal, starts
from polyrhythm.partition.place import Place
from polyrhythm_reproductions.hpc import conjugate_gradient, fourier_transform, laplacian_rows, streamed_bandwidth, tiled_product
from polyrhythm_reproductions.jobs.parts import at_every_rank
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_BYTES_A_SECOND = 10e9 / 8
_NETWORK = Network.uniform("10 Gbit/s, 50 us", "10 Gbit/s", "50 us")
_ON = Simulator(network=_NETWORK, devices=Device("1 GFLOP/s", 1e9))
_SIDE, _TILES = 20, 384
_ROWS, _COLUMNS = 96, 64


def measure(trial: ArmTrial) -> Figures:
    """Bandwidth, errors, and virtual seconds on 2 and on 4 ranks."""
    solved = {ranks: _solved(trial.seed, ranks) for ranks in (1, 2, 3, 4)}
    products = {ranks: _multiplied(trial.seed, ranks) for ranks in (1, 2, 3, 4)}
    transforms = {ranks: _transformed(trial.seed, ranks) for ranks in (1, 2, 3, 4)}
    stream = at_every_rank(lambda place: streamed_bandwidth(place.axis("ranks"), 1 << 20, 8), {"ranks": 2}, Simulator(network=_NETWORK))
    return {
        "stream": min(stream) / _BYTES_A_SECOND,
        "residual": max(residual for residual, _, _ in solved.values()),
        "operations": max(operations for _, _, operations in list(solved.values())[1:]),
        "product": max(error for error, _ in products.values()),
        "fourier": max(error for error, _ in transforms.values()),
        "product speed": products[2][1] / products[4][1],
        "gradients speed": solved[2][1] / solved[4][1],
        "fourier speed": transforms[2][1] / transforms[4][1],
    }


def _own(parts: int, index: int, length: int) -> slice:
    sizes = near_equal(length, parts)
    return slice(starts(sizes)[index], starts(sizes)[index] + sizes[index])


def _solved(seed: int, ranks: int) -> tuple[float, float, float]:
    """The residual of a system, virtual seconds of an iteration, and operations among ranks in one."""

    def program(place: Place) -> tuple[float, float, float]:
        axis = place.axis("ranks")
        matrix, sizes = laplacian_rows(_SIDE, axis.size, axis.index)
        right = torch.randn(_SIDE**2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        began, before = time.perf_counter(), Counter(axis.calls)
        found = conjugate_gradient(axis, matrix, right[_own(axis.size, axis.index, _SIDE**2)], sizes)
        calls = (axis.calls - before).total() - 3  # the first sum, and two to find the residual
        return found.residual, (time.perf_counter() - began) / found.iterations, calls / found.iterations

    found = at_every_rank(program, {"ranks": ranks}, _ON)
    return max(each[0] for each in found), max(each[1] for each in found), found[0][2]


def _multiplied(seed: int, ranks: int) -> tuple[float, float]:
    """The error of a product relative to its largest element, and its virtual seconds."""
    left, right = (torch.randn(_TILES, _TILES, generator=torch.Generator().manual_seed(2 * seed + k)) for k in range(2))

    def program(place: Place) -> tuple[Tensor, float]:
        axis = place.axis("ranks")
        own, began = _own(axis.size, axis.index, _TILES), time.perf_counter()
        return tiled_product(axis, left[own], right[own], near_equal(_TILES, axis.size)), time.perf_counter() - began

    found = at_every_rank(program, {"ranks": ranks}, _ON)
    expected = left.double() @ right.double()
    error = (torch.cat([rows for rows, _ in found]).double() - expected).abs().max() / expected.abs().max()
    return float(error), max(seconds for _, seconds in found)


def _transformed(seed: int, ranks: int) -> tuple[float, float]:
    """The error of a transform relative to its largest element, and its virtual seconds."""
    given = torch.randn(_ROWS * _COLUMNS, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))

    def program(place: Place) -> tuple[Tensor, float]:
        axis = place.axis("ranks")
        own = given.view(_ROWS, _COLUMNS)[:, _own(axis.size, axis.index, _COLUMNS)]
        began = time.perf_counter()
        return fourier_transform(axis, own, _ROWS, _COLUMNS), time.perf_counter() - began

    found = at_every_rank(program, {"ranks": ranks}, _ON)
    expected = torch.fft.fft(given.to(torch.complex128))
    whole = torch.cat([rows for rows, _ in found]).T.reshape(-1).to(torch.complex128)
    return float((whole - expected).abs().max() / expected.abs().max()), max(seconds for _, seconds in found)


def _error(figure: str, paper: str, ours: str, most: float) -> Claim:
    return Claim(
        paper=paper,
        ours=ours,
        figure=figure,
        unit="difference",
        most=most,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


def _speed(figure: str, paper: str, least: float) -> Claim:
    return Claim(
        paper=paper,
        ours="virtual seconds on 2 ranks over those on 4",
        figure=f"{figure} speed",
        unit="x",
        least=least,
        most=2.2,
        efficiency=Efficiency.SYSTEM,
    )


REPRODUCTION = Reproduction(
    name="tensorflow-hpc",
    systems=(),
    paper="Chien, Markidis, Olshevsky, Bulatov, Laure, Vetter: TensorFlow Doing HPC (IPDPSW 2019, arXiv:1903.04364)",
    setting="STREAM with tensors of 4 MiB between two ranks; a product of 384 x 384 in tiles; conjugate gradients for a Laplacian of 400 "
    "unknowns in float64; a Fourier transform of 6,144 numbers in complex64. On 1 to 4 ranks of 1 GFLOP/s, 10 Gbit/s, 50 us.",
    measure=measure,
    notes="Seconds are of the mini-apps, which train nothing; those of conjugate gradients are of an iteration. The paper's speed-ups are "
    "those of problems that fill GPUs; these are small beside the latency of the network, and no size was tried before the bounds were "
    "set. Short Fourier transforms are products with matrices, so that their operations are counted.",
    claims=(
        Claim(
            paper="STREAM between two hosts has more than half of the network's bandwidth.",
            ours="bytes a second over those of the line",
            figure="stream",
            unit="ratio",
            least=0.5,
            most=1.0,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        _error("residual", "Conjugate gradients converge.", "largest relative residual on 1 to 4 ranks, computed anew", 1e-8),
        Claim(
            paper="An iteration of conjugate gradients gathers a vector and makes two sums.",
            ours="operations among ranks in an iteration",
            figure="operations",
            unit="1",
            least=3.0,
            most=3.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        _error("product", "Products in tiles are right.", "largest error on 1 to 4 ranks, relative to the largest element", 1e-5),
        _error("fourier", "Fourier transforms in parts are right.", "largest error on 1 to 4 ranks, relative to the largest element", 1e-5),
        _speed("product", "A product in tiles is twice as fast on 4 GPUs as on 2.", 1.6),
        _speed("gradients", "Conjugate gradients are 1.7 times as fast on 4 GPUs as on 2.", 1.53),
        _speed("fourier", "Fourier transforms are 1.8 times as fast on 4 GPUs as on 2.", 1.62),
    ),
)
