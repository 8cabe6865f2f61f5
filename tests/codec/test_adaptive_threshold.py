"""AdaptiveThreshold finds its quantum, and ClippedFeedback declares what it loses."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import AdaptiveThreshold, ClippedFeedback, ErrorFeedback, Threshold, TopK, TwoBit
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

from .aggregation import alone, normal

LAYOUT = Layout(("p",), ((20_000,),))


@pytest.mark.parametrize("wrong", [0.01, 100.0])
def test_from_a_hundred_times_the_right_quantum_it_comes_into_its_range_within_132_steps(wrong: float) -> None:
    right = normal(0, LAYOUT.numel).abs().quantile(1 - 1e-3).item()  # one element in a thousand, amid 1e-4 and 1e-2
    codec = AdaptiveThreshold(right * wrong)
    state, shares = codec.initial(LAYOUT), []
    for step in range(180):
        encoded = codec.encode(normal(step, LAYOUT.numel), LAYOUT, state, alone())
        state = encoded.state
        shares.append(encoded.sent.count_nonzero().item() / LAYOUT.numel)
    assert not 1e-4 <= shares[0] <= 1e-2
    assert any(1e-4 <= share <= 1e-2 for share in shares[:132])
    assert 1e-4 <= sum(shares[132:]) / len(shares[132:]) <= 1e-2  # at the range's end one element more or less decides about a step


def test_a_share_inside_the_range_leaves_the_quantum_alone() -> None:
    codec, value = AdaptiveThreshold(1.0), torch.zeros(LAYOUT.numel)
    value[:20] = 2.0
    assert codec.quantum(codec.encode(value, LAYOUT, codec.initial(LAYOUT), alone()).state) == 1.0
    value[:] = 2.0  # all in two bits each: above the range
    assert codec.quantum(codec.encode(value, LAYOUT, codec.initial(LAYOUT), alone()).state) == pytest.approx(2 ** (1 / 20))
    value[:] = 0.0
    assert codec.quantum(codec.encode(value, LAYOUT, codec.initial(LAYOUT), alone()).state) == pytest.approx(0.5 ** (1 / 20))


def test_what_is_clipped_is_declared_and_nothing_else_is_lost() -> None:
    layout = Layout(("p",), ((200,),))
    codec = ClippedFeedback(AdaptiveThreshold(0.5, fewest=0.2, most=0.6), quanta=2.0, every=5)
    state, lost = codec.initial(layout), torch.zeros(200, dtype=torch.float64)
    for step in range(1, 41):
        value, before, quantum = normal(step, 200) * 2, codec.residual(state, layout), codec.inner.quantum(state)
        encoded = codec.encode(value, layout, state, alone())
        after, state = codec.residual(encoded.state, layout), encoded.state
        difference = (before + value) - encoded.sent - after
        if step % 5:
            assert not difference.any()
        else:
            assert (after.abs() <= 2 * quantum).all()
            assert (after[difference != 0].abs() == 2 * quantum).all()
        lost += difference.double().abs()
    assert lost.sum() > 0
    assert state["clipped"].item() == pytest.approx(lost.sum().item(), rel=1e-6)


def test_without_a_bound_that_binds_it_is_error_feedback() -> None:
    layout = Layout(("p",), ((50,),))
    clipped, plain = ClippedFeedback(Threshold(1.0), quanta=1e9), ErrorFeedback(Threshold(1.0))
    one, other = clipped.initial(layout), plain.initial(layout)
    for step in range(12):
        a, b = clipped.encode(normal(step, 50), layout, one, alone()), plain.encode(normal(step, 50), layout, other, alone())
        assert torch.equal(a.sent, b.sent)
        one, other = a.state, b.state
    assert torch.equal(clipped.residual(one, layout), plain.residual(other, layout))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("fill", "end"), [(0.0, "tiny"), (float("inf"), "max")])
def test_the_quantum_stays_a_number_of_the_values_type_whatever_comes(dtype: torch.dtype, fill: float, end: str) -> None:
    codec, layout = AdaptiveThreshold(1.0), Layout(("p",), ((4,),))
    bound = getattr(torch.finfo(dtype), end)
    state, value = {"tau": torch.tensor(bound, dtype=torch.float64)}, torch.full((4,), fill, dtype=dtype)
    for _ in range(3):
        state = codec.encode(value, layout, state, alone()).state
    assert codec.quantum(state) == bound


def test_a_residual_is_counted_in_quanta_where_there_is_one() -> None:
    ClippedFeedback(TwoBit(0.5))
    with pytest.raises(CompositionError, match="has no quantum to count in: TopK"):
        ClippedFeedback(TopK(0.1))  # type: ignore[arg-type]
