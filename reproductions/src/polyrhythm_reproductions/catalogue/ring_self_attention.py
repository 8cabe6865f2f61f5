"""Sequence parallelism: the tokens of a sequence are divided, and keys and values go around a ring."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence import DotProductAttention, RingAttention, RingSelfAttention, Tokens
from polyrhythm_reproductions.jobs.parts import at_every_rank, counted_place, sent
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_BATCH, _HEADS, _WIDTH, _LENGTH, _COUNTED = 2, 4, 8, 24, 256


def measure(trial: ArmTrial) -> Figures:
    """Differences of outputs and gradients from one process, bytes around the ring, and the sizes of scores."""
    gaps = [_difference(trial.seed, ranks, causal) for ranks in (2, 3, 4, 8) for causal in (False, True)]
    scores = [_largest(RingSelfAttention, ranks) * ranks / (_BATCH * _HEADS * _COUNTED**2) for ranks in (2, 4, 8)]
    online = [_largest(RingAttention, ranks) * ranks**2 / (_BATCH * _HEADS * _COUNTED**2) for ranks in (2, 4, 8)]
    return {
        "difference": max(gaps),
        "scores": max(scores),
        "online scores": max(online),
        "bytes": max((_forward_bytes(ranks) for ranks in (2, 4, 8)), key=lambda ratio: abs(ratio - 1)),
    }


def _inputs(seed: int) -> list[Tensor]:
    """Queries, keys, values, and the gradient of the output."""
    drawn = torch.Generator().manual_seed(seed)
    return [torch.randn(_BATCH, _HEADS, _LENGTH, _WIDTH, generator=drawn) for _ in range(4)]


def _difference(seed: int, ranks: int, causal: bool) -> float:
    *whole, gradient = _inputs(seed)
    queries, keys, values = (each.requires_grad_() for each in whole)
    output = F.scaled_dot_product_attention(queries, keys, values, is_causal=causal)
    output.backward(gradient)  # type: ignore[no-untyped-call]
    expected = [output.detach(), *(each.grad for each in (queries, keys, values) if each.grad is not None)]
    tokens = Tokens(_LENGTH, "cp")

    def program(place: Place) -> list[Tensor]:
        axis = place.axis("cp")
        local = RingSelfAttention(tokens).local(DotProductAttention(causal), "attention", place)
        *own, back = (tokens.part(each, axis, 2).detach() for each in _inputs(seed))
        given = [each.requires_grad_() for each in own]
        found = local(*given)
        found.backward(back)
        return [tokens.join(each, axis, 2) for each in (found.detach(), *(each.grad for each in given))]

    parts = at_every_rank(program, {"cp": ranks})
    return max((a - b).abs().max().item() for part in parts for a, b in zip(part, expected, strict=True))


def _given(ranks: int) -> list[Tensor]:
    return [torch.empty(_BATCH, _HEADS, _COUNTED // ranks, _WIDTH, device="meta", requires_grad=True) for _ in range(3)]


def _forward_bytes(ranks: int) -> float:
    """What a rank sends in the forward pass, over 2 (P - 1) B h (L / P) d numbers."""
    place = counted_place(cp=ranks)
    RingSelfAttention(Tokens(_COUNTED)).local(DotProductAttention(), "", place)(*_given(ranks))
    return sent(place) / (4 * 2 * (ranks - 1) * _BATCH * _HEADS * _COUNTED // ranks * _WIDTH)


class _LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the elements of the largest tensor that is made."""

    numel: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.numel = max(self.numel, found.numel())
        return found


def _largest(member: Any, ranks: int) -> int:
    """The elements of the largest tensor of a forward and a backward pass: the scores, in sequences as long as these."""
    local = member(Tokens(_COUNTED)).local(DotProductAttention(), "", counted_place(cp=ranks))
    with _LargestTensor() as largest:  # type: ignore[no-untyped-call]
        local(*_given(ranks)).sum().backward()
    return int(largest.numel)


REPRODUCTION = Reproduction(
    name="ring-self-attention",
    systems=(),
    paper="Li, Xue, Baranwal, Li, You: Sequence Parallelism: Long Sequence Training from System Perspective (2021, arXiv:2105.13120)",
    setting="Attention of 4 heads of 8 over 24 tokens in one process, and over a sequence that is divided among 2, 3, 4 and 8 ranks. Bytes "
    "and sizes are of 256 tokens, without values.",
    measure=measure,
    claims=(
        Claim(
            paper="Ring self-attention computes what attention on one device does.",
            ours="largest difference of outputs and gradients from one process, causal and not",
            figure="difference",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A device has the scores of its own queries with all keys: 1/P of them.",
            ours="elements of the largest tensor times P, over all scores",
            figure="scores",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Keys, then values, go P - 1 times around the ring in the forward pass.",
            ours="bytes that a rank sends over 2 (P - 1) B h (L / P) d numbers",
            figure="bytes",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="With sums that are made on the way (Liu et al., 2023, Ring Attention) a device has 1/P² of the scores at a time.",
            ours="elements of the largest tensor of RingAttention times P², over all scores",
            figure="online scores",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Batches 13.7 times and sequences 3 times as long as those of tensor parallelism.",
            untestable="It is the memory of 64 P100 GPUs.",
        ),
    ),
)
