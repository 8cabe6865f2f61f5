"""Cuts of pipelines for slow lines: what they send, exactly, and what that costs in held-out loss."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.pipeline import Activations, Bottleneck, BoundaryInPlace, Delta, Exact, GivenStages, MeanLoss, Pipelined, Subspace
from polyrhythm_reproductions.jobs.parts import counted_place, sent
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_INPUTS, _WIDTH, _CLASSES = 16, 128, 10
_SAMPLES, _BATCH, _EPOCHS = 512, 32, 12
_WIDE, _ROWS = 4096, 8
"""The features and rows of the activations whose bytes are counted: tiles and scales are whole."""


def measure(trial: ArmTrial) -> Figures:
    """Times fewer bytes over a cut, and the held-out loss of trainings with one in the middle."""
    epochs = trial.size(_EPOCHS, 2)
    exact = _loss(trial.seed, Exact(), epochs)
    figures: dict[str, float] = {
        "aq-sgd bytes": _fewer(Delta(4, 8), seen=True),
        "tah-quant 4 bytes": _fewer(Activations(4, 4)),
        "tah-quant 3 bytes": _fewer(Activations(3, 3)),
        "subspace bytes": _fewer(Subspace(_WIDE // 100)),
        "resbm bytes": _bottleneck_bytes(),
    }
    arms: dict[str, Any] = {
        "aq-sgd": Delta(4, 8),
        "aq-sgd 2": Delta(2, 8),
        "tah-quant": Activations(4, 4),
        "tah-quant 3": Activations(3, 4),
        "subspace": Subspace(_WIDTH // 8),
    }
    figures |= {f"{name} loss": _loss(trial.seed, boundary, epochs) / exact for name, boundary in arms.items()}
    figures["resbm loss"] = _loss(trial.seed, Exact(), epochs, Bottleneck(_WIDTH // 8)) / exact
    return figures


def _fewer(boundary: Any, seen: bool = False) -> float:
    """Bytes of activations over a cut with float32, over those with the boundary; of samples that were `seen` before if it remembers."""
    return _over_cut(Exact(), 1) / _over_cut(boundary, 1 + seen)


def _over_cut(boundary: Any, steps: int) -> int:
    """The bytes that the first stage sends in the last of some steps on the same samples."""
    place = counted_place(pp=2)
    model = nn.Sequential(nn.Linear(4, _WIDE), nn.Linear(_WIDE, 2)).to("meta")
    way = Pipelined(micro_batches=1, division=GivenStages((1, 1)), boundary=boundary)
    pipeline = way.local(model, place, MeanLoss(F.mse_loss), torch.empty(_ROWS, 4))
    before = 0
    for _ in range(steps):
        before = sent(place)
        pipeline.step(torch.empty(_ROWS, 4, device="meta"), torch.empty(_ROWS, 2, device="meta"), ids=range(_ROWS))
    return sent(place) - before


def _bottleneck_bytes() -> float:
    """Elements over a cut without a bottleneck of 1/128 over those with it."""
    encoder, _ = Bottleneck(_WIDE // 128).modules(_WIDE)
    value = torch.empty(_ROWS, _WIDE, device="meta")
    return value.numel() / float(encoder.to("meta")(value).numel())


def _points(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Inputs, and the classes that a fixed network gives them."""
    x = torch.randn(count, _INPUTS, generator=torch.Generator().manual_seed(seed))
    drawn = torch.Generator().manual_seed(12345)
    first, last = torch.randn(_INPUTS, 32, generator=drawn), torch.randn(32, _CLASSES, generator=drawn)
    return x, (torch.tanh(x @ first) @ last).argmax(1)


def _loss(seed: int, boundary: Any, epochs: int, narrow: Bottleneck | None = None) -> float:
    """The held-out loss after training with the boundary between two halves of a network."""
    torch.manual_seed(seed)
    halves = [[nn.Linear(_INPUTS, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH)], [nn.GELU(), nn.Linear(_WIDTH, _CLASSES)]]
    crossing, between = BoundaryInPlace(boundary, seed=seed), [] if narrow is None else list(narrow.modules(_WIDTH))
    model = nn.Sequential(*halves[0], crossing, *between, *halves[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    x, y = _points(1, _SAMPLES)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(_SAMPLES, generator=order), _BATCH):
            ids: tuple[Hashable, ...] = tuple(rows.tolist())
            crossing.ids = ids
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    model.eval()
    held, labels = _points(2, 1024)
    crossing.ids = tuple(range(_SAMPLES, _SAMPLES + len(held)))
    with torch.no_grad():
        return F.cross_entropy(model(held), labels).item()


def _bytes(figure: str, paper: str, what: str, least: float, most: float) -> Claim:
    return Claim(
        paper=paper,
        ours=f"bytes over a cut of 8 x 4,096 numbers in float32 over those with {what}",
        figure=f"{figure} bytes",
        unit="x",
        least=least,
        most=most,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


def _learns(figure: str, paper: str, what: str) -> Claim:
    return Claim(
        paper=paper,
        ours=f"held-out loss of a training with {what} between its halves over that with an exact cut",
        figure=f"{figure} loss",
        unit="ratio",
        most=1.05,
        kind=ClaimKind.NO_WORSE,
    )


REPRODUCTION = Reproduction(
    name="slow-boundaries",
    systems=(),
    paper="Wang et al.: Fine-tuning Language Models over Slow Networks using Activation Compression with Guarantees (NeurIPS 2022); "
    "TAH-Quant (2025, arXiv:2506.01352); Protocol Models (Subspace Networks, NeurIPS 2025, arXiv:2506.01260); ResBM (2026, "
    "arXiv:2604.11947)",
    setting="A perceptron of 16-128-128-10 (20,000 parameters) on 512 points of a teacher, 12 epochs of AdamW in batches of 32, with a "
    "boundary after its second layer, in one process, which is what a pipeline with it computes. Bytes are counted on an axis.",
    stop="after 12 epochs",
    measure=measure,
    notes="Learning is of narrower cuts than bytes: at a width of 128, an eighth of it is 16 dimensions; a hundredth would be one. "
    "TAH-Quant is tiles with a Hadamard transform and one number of bits, without its choice of bits by entropy. Subspaces are random and "
    "fixed, and no weight is constrained to them, as in the paper's. Of AQ-SGD bytes are those of samples that were seen before.",
    claims=(
        _bytes("aq-sgd", "AQ-SGD sends changes in 4 bits: 8 times fewer bytes.", "Delta(4)", 7.2, 8.0),
        _bytes("tah-quant 4", "TAH-Quant sends 4 bits: 8 times fewer bytes.", "Activations(4)", 7.2, 8.0),
        _bytes("tah-quant 3", "TAH-Quant sends 3 bits: 10.7 times fewer bytes.", "Activations(3)", 9.6, 10.7),
        _bytes("subspace", "Coefficients in a subspace are up to 100 times fewer bytes.", "Subspace(40)", 90.0, 110.0),
        _bytes("resbm", "A bottleneck sends 128 times fewer bytes.", "Bottleneck(32)", 128.0, 128.0),
        _learns("aq-sgd", "AQ-SGD with 4 bits learns as without.", "Delta(4, 8)"),
        _learns("aq-sgd 2", "AQ-SGD with 2 bits forward learns as without.", "Delta(2, 8)"),
        _learns("tah-quant", "TAH-Quant with 4 bits learns as without.", "Activations(4, 4)"),
        _learns("tah-quant 3", "TAH-Quant with 3 bits forward learns as without.", "Activations(3, 4)"),
        _learns("subspace", "Training in a subspace is lossless.", "Subspace(16), an eighth of the width"),
        _learns("resbm", "A residual bottleneck learns as without.", "Bottleneck(16), an eighth of the width"),
        Claim(
            paper="4.3 times as fast over lines of 100 Mbit/s, at up to 8 billion parameters.", untestable="There are no such models here."
        ),
    ),
)
