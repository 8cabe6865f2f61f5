"""The law of conservation of each codec: where each element of a value is after one step of encoding.

Without loss, what was sent plus the residual is the value plus the residual before. A codec that loses or transforms values, and has a
state, obeys a law that is written here, in `LAWS`; `law_of` refuses one that has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from polyrhythm.codec import (
    KKT,
    AdaptiveThreshold,
    AveragedMomentum,
    Clipped,
    ClippedFeedback,
    DecayingFeedback,
    FeatureBlocks,
    LocalMomentum,
    LowRank,
    MomentumCorrection,
    PerTensor,
    QuantizedLowRank,
    RandomSkip,
    RateScaled,
    SharedK,
)
from polyrhythm.codec.feature_blocks import block_at
from polyrhythm.core.protocols.codec import Aggregated, Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True)
class Step:
    """One step of encoding: the value, the states before and after, what was sent, and the sum over all workers (none for a packet)."""

    value: Tensor
    layout: Layout
    before: State
    after: State
    sent: Tensor
    total: Tensor | None
    context: ExchangeContext
    relative: float

    def residual_before(self, codec: Any) -> Tensor:
        """The residual of `codec` before the step, in the type of the values."""
        residual: Tensor = codec.residual(self.before, self.layout)
        return residual.to(self.value)

    def inside(self, value: Tensor, prefix: str = "inner") -> Step:
        """The step of the codec that encodes `value`, and has its state under `prefix`."""
        return replace(self, value=value, before=divide(self.before, [prefix])[prefix], after=divide(self.after, [prefix])[prefix])

    def part(self, start: int, layout: Layout, prefix: str) -> Step:
        """The step of a part of the vector, with the state under `prefix`."""
        cut = slice(start, start + layout.numel)
        total = None if self.total is None else self.total[cut]
        context = self.context.range(start, layout)
        return replace(self.inside(self.value[cut], prefix), layout=layout, sent=self.sent[cut], total=total, context=context)

    def agree(self, found: Tensor, expected: Tensor) -> None:
        """Fail unless two tensors agree, as far as sums of the step's magnitudes are rounded."""
        scale = max((float(each.abs().max()) for each in (self.value, self.sent, expected) if len(each)), default=0.0)
        torch.testing.assert_close(found.to(self.value), expected.to(self.value), rtol=self.relative, atol=self.relative * scale)


Law = Callable[[Any, Step], None]


def law_of(codec: Any) -> Law:
    """The law of `codec`; every codec that loses or transforms values, and has a state, needs one in `LAWS`."""
    if type(codec) in LAWS:
        return LAWS[type(codec)]
    if not (codec.traits.lossy or codec.traits.transforms):
        return nothing_is_lost
    assert not codec.initial(Layout(("w",), ((3, 2),))), f"{codec} loses or transforms values and has a state: write its law in LAWS"
    return nothing_is_kept


def check(codec: Any, step: Step) -> None:
    """Fail unless `codec` obeys its law in this step."""
    law_of(codec)(codec, step)


def steps_of(
    values: Sequence[Tensor], layout: Layout, states: Sequence[State], told: Sequence[Encoded] | Sequence[Aggregated],
    contexts: Sequence[ExchangeContext], relative: float,
) -> list[Step]:  # fmt: skip
    """The step of each worker, from what it gave and what it got."""
    return [
        Step(value, layout, before, one.state, one.sent, one.total if isinstance(one, Aggregated) else None, context, relative)
        for value, before, one, context in zip(values, states, told, contexts, strict=True)
    ]


def nothing_is_lost(codec: Any, step: Step) -> None:
    """What was sent plus the residual is what was given plus the residual before."""
    step.agree(step.sent + codec.residual(step.after, step.layout), step.value + step.residual_before(codec))


def nothing_is_kept(codec: Any, step: Step) -> None:
    """The residual stays zero: what was not sent is lost."""
    assert not codec.residual(step.after, step.layout).any()


def one_quantum_is_sent(codec: AdaptiveThreshold, step: Step) -> None:
    """Each element above tau sends one tau with its sign, the others nothing; tau moves by one step at most; nothing is kept."""
    tau = step.value.new_tensor(codec.quantum(step.before))
    assert torch.equal(step.sent, torch.where(step.value.abs() > tau, step.value.sign() * tau, step.value.new_zeros(())))
    ratio = codec.quantum(step.after) / codec.quantum(step.before)
    assert min(abs(ratio - each) for each in (0.5**0.05, 1.0, 2**0.05)) < 1e-9
    nothing_is_kept(codec, step)


def a_projection_is_sent(codec: LowRank, step: Step) -> None:
    """What is lost is orthogonal to what was sent, and nothing is kept."""
    sent, lost = step.sent.double(), step.value.double() - step.sent
    assert abs(sent @ lost) <= 10 * step.relative * step.value.double().square().sum()
    nothing_is_kept(codec, step)


def factors_are_sent(codec: QuantizedLowRank, step: Step) -> None:
    """The sum of each matrix has its rows in the span of the next Q, whose columns are as many as the rank; nothing is kept."""
    assert step.total is not None
    for name, (rows, rest) in LowRank(codec.rank).matrices(step.layout):
        q, total = step.after[f"q/{name}"].double(), step.layout.named(step.total)[name].double().view(rows, rest)
        assert q.shape == (codec.rank, rest)
        step.agree((total @ torch.linalg.pinv(q) @ q).view(-1), total.view(-1))
    nothing_is_kept(codec, step)


def the_same_number_is_sent(codec: SharedK, step: Step) -> None:
    """Of n elements ⌈ratio · n⌉ are sent as they are; nothing is kept."""
    assert ((step.sent == step.value) | (step.sent == 0)).all()
    assert int((step.sent != 0).sum()) == math.ceil(codec.ratio * len(step.value))
    nothing_is_kept(codec, step)


def what_is_clipped_is_counted(codec: ClippedFeedback, step: Step) -> None:
    """Sent + residual + clipped is given; only every so many steps something is clipped, which lay beyond the bound, and is counted."""
    left, after = step.value + step.residual_before(codec) - step.sent, codec.residual(step.after, step.layout)
    lost = left - after
    counted = step.after["clipped"] - step.before["clipped"]
    torch.testing.assert_close(counted, lost.abs().sum(dtype=torch.float64), rtol=1e-5, atol=1e-6)
    assert int(step.after["rounds"]) == int(step.before["rounds"]) + 1
    if int(step.after["rounds"]) % codec.every:
        assert not lost.any()
        return
    bound = codec.quanta * codec.inner.quantum(step.before)
    assert (after.abs() <= bound * (1 + 1e-6)).all()
    assert not lost[left.abs() <= bound].any()
    step.agree(after[lost != 0], left.sign()[lost != 0] * bound)


def what_is_dropped_is_counted(codec: KKT | RandomSkip, step: Step) -> None:
    """The inner codec gets each element or zero; the elements it does not get are counted, and so are their magnitudes."""
    assert not codec.inner.traits.lossy, "what was dropped is then all that was not sent"
    lost = step.value - step.sent
    assert ((step.sent == step.value) | (step.sent == 0)).all()
    counted = step.after["dropped"] - step.before["dropped"]
    assert int(counted[0]) == int((lost != 0).sum())
    torch.testing.assert_close(counted[1], lost.abs().sum(dtype=torch.float64), rtol=1e-5, atol=1e-6)
    nothing_is_kept(codec, step)


def what_leaves_a_weight_at_zero_is_dropped(codec: KKT, step: Step) -> None:
    """What is dropped is counted, is small enough, and belongs to weights that are zero."""
    what_is_dropped_is_counted(codec, step)
    lost = step.sent != step.value
    assert not step.context.weights[lost].any()
    assert (step.value[lost].abs() <= codec.penalty * (1 - codec.delta)).all()


def one_block_is_sent(codec: FeatureBlocks, step: Step) -> None:
    """The inner codec's law holds in the block of this step; of the others nothing is sent, and their states do not change."""
    chosen, start = block_at(step.context.clock, codec.blocks, step.context.group.seed), 0
    residual = codec.residual(step.after, step.layout)
    for block in range(codec.blocks):
        end = step.layout.numel * (block + 1) // codec.blocks
        part = step.part(start, Layout(("block",), ((end - start,),)), str(block))
        assert torch.equal(residual[start:end], codec.inner.residual(part.after, part.layout))
        start = end
        if block == chosen:
            check(codec.inner, part)
        else:
            assert not part.sent.any()
            assert all(torch.equal(part.after[name], part.before[name]) for name in part.before)


def each_tensor_has_its_law(codec: PerTensor, step: Step) -> None:
    """For each tensor the law of the codec that encodes it, whose residual is kept."""
    start, residual = 0, codec.residual(step.after, step.layout)
    for name, shape in zip(step.layout.names, step.layout.shapes, strict=True):
        single = Layout((name,), (shape,))
        own = codec.inner if len(shape) > 1 and single.numel >= codec.smallest else codec.rest
        part = step.part(start, single, name)
        check(own, part)
        assert torch.equal(residual[start : start + single.numel], own.residual(part.after, single))
        start += single.numel
    assert len(residual) == start


def the_residual_decays(codec: DecayingFeedback, step: Step) -> None:
    """Sent + residual is the value plus β times the residual before."""
    step.agree(step.sent + codec.residual(step.after, step.layout), step.value + codec.decay * step.residual_before(codec))


def velocity_accumulates(codec: MomentumCorrection, step: Step) -> None:
    """Sent + residual is the residual before plus the momentum m u + g, which is kept where nothing was sent and else zero."""
    u = step.value + codec.momentum * step.before["momentum"].to(step.value)
    step.agree(step.sent + codec.residual(step.after, step.layout), step.residual_before(codec) + u)
    step.agree(step.after["momentum"], torch.where(step.sent == 0, u, torch.zeros_like(u)))


def _the_inner_codec_obeys(codec: Any, inside: Step, step: Step) -> None:
    """The law of `codec.inner` holds in the step `inside`, and its residual is all that is kept."""
    check(codec.inner, inside)
    assert torch.equal(codec.residual(step.after, step.layout), codec.inner.residual(inside.after, inside.layout))


def the_clipped_value_obeys(codec: Clipped, step: Step) -> None:
    """The inner codec's law holds for the value, scaled down to a norm of norm / √P."""
    most, found = codec.norm / step.context.group.size**0.5, float(step.value.norm())
    _the_inner_codec_obeys(codec, replace(step, value=step.value * min(1.0, most / max(found, 1e-30))), step)


def the_scaled_value_obeys(codec: RateScaled, step: Step) -> None:
    """The inner codec's law holds for the value times the learning rate."""
    rates = step.context.rates()
    _the_inner_codec_obeys(codec, replace(step, value=step.value * (rates[0] if rates else 1.0)), step)


def the_momentum_obeys(codec: LocalMomentum, step: Step) -> None:
    """The inner codec's law holds for β m + (1 - β) g, which is the next m."""
    momentum = codec.beta * step.before["momentum"].to(step.value) + (1 - codec.beta) * step.value
    step.agree(step.after["momentum"], momentum)
    _the_inner_codec_obeys(codec, step.inside(momentum), step)


def the_shared_momentum_obeys(codec: AveragedMomentum, step: Step) -> None:
    """The first values are sent as they are; later the inner codec's law holds for β m + (1 - β) g, whose mean is the next m."""
    assert step.total is not None
    mean, momentum = step.total / step.context.group.size, codec.beta * step.before["momentum"].to(step.value)
    if int(step.before["rounds"]) < codec.warmup:
        step.agree(step.sent, step.value)
        step.agree(step.after["momentum"], momentum + (1 - codec.beta) * mean)
    else:
        step.agree(step.after["momentum"], mean)
        _the_inner_codec_obeys(codec, step.inside(momentum + (1 - codec.beta) * step.value), step)


LAWS: dict[type, Law] = {
    AdaptiveThreshold: one_quantum_is_sent,
    AveragedMomentum: the_shared_momentum_obeys,
    Clipped: the_clipped_value_obeys,
    ClippedFeedback: what_is_clipped_is_counted,
    DecayingFeedback: the_residual_decays,
    FeatureBlocks: one_block_is_sent,
    KKT: what_leaves_a_weight_at_zero_is_dropped,
    LocalMomentum: the_momentum_obeys,
    LowRank: a_projection_is_sent,
    QuantizedLowRank: factors_are_sent,
    MomentumCorrection: velocity_accumulates,
    PerTensor: each_tensor_has_its_law,
    RandomSkip: what_is_dropped_is_counted,
    RateScaled: the_scaled_value_obeys,
    SharedK: the_same_number_is_sent,
}
"""The laws of codecs that lose or transform values and have a state, and of those whose parts each have their own."""
