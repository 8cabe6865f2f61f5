"""Merges and rules against the formulas of their papers, in numbers small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest
import torch
from endpoints import context_of
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import Contribution, Direction, Rule, rule_of, scale_of_all
from polyrhythm.core.tensors import NO_GRADIENT, Layout
from polyrhythm.errors import CompositionError
from polyrhythm.merge import (
    LARC,
    LARS,
    MEMBERS,
    Adagrad,
    Adam,
    BatchWeighted,
    DelayedNesterov,
    HeavyBall,
    LinearScaling,
    Mean,
    Nesterov,
    OuterOptimizer,
    PolynomialStaleness,
    ProximalSGD,
    SampleMean,
    SlowMomentum,
    SquareRootScaling,
    Sum,
    Yogi,
)
from polyrhythm.merge.sample_mean import shares

A, B, C = torch.tensor([1.0, 2, 3, 4]), torch.tensor([3.0, -2, 1, 0]), torch.tensor([8.0, 6, -4, 2])
LAYOUT = Layout(("w",), ((4,),))
ONE = Layout(("w",), ((1,),))
RULES = tuple(dict.fromkeys(rule for each in MEMBERS if (rule := rule_of(each))))


def steps(rule: Rule, directions: list[float], rate: float = 0.25, workers: int = 1) -> list[float]:
    """The steps of a rule on directions of one element."""
    state, found = rule.initial(ONE), []
    for direction in directions:
        step, state = rule.step(torch.tensor([direction]), state, rate, workers)
        found.append(step.item())
    return found


@pytest.mark.parametrize(
    ("rule", "directions", "expected"),
    [
        # m is 2, then -3; v is τ² first, then 0.75 · 0.0625 + 0.25 · 16, then 0.75 of that and 0.25 · 64
        (Adam(2.0, (0.5, 0.75), 0.25), [4, -8], [4 / (sqrt(4.046875) + 0.25), -6 / (sqrt(19.03515625) + 0.25)]),
        # v grows by 0.25 · 16, then falls by 0.25 · 1, since 1 < 4.0625
        (Yogi(2.0, (0.5, 0.75), 0.25), [4, 1], [4 / (sqrt(4.0625) + 0.25), 3 / (sqrt(3.8125) + 0.25)]),
        (Yogi(2.0, (0.5, 0.75), 2.0), [2], [0.5]),  # v is d² already
        (HeavyBall(0.5), [4, -2, 6], [1, 0, 1.5]),
        # b is 0, 6, 6, 3 and its share c = 1/4, at every second step 2 · 3/4 + 1/4
        (DelayedNesterov(2.0, 0.5, 2, 0.25), [4, 8, 2, -2], [8, 26.5, 5.5, 1.25]),
        (DelayedNesterov(2.0, 0.5, 2), [4, 8, 2, -2], [8, 28, 4, 2]),
        (Nesterov(2.0, 0.5), [4, 8], [12, 26]),
        (Adagrad(2.0, 7.0, 0.5), [3, 3], [6 / 4.5, 6 / 5.5]),
        (Adagrad(None, 7.0, 0.5), [3, 3], [0.75 / 4.5, 0.75 / 5.5]),
    ],
    ids=repr,
)
def test_a_rule_takes_the_steps_of_its_formula(rule: Rule, directions: list[float], expected: list[float]) -> None:
    assert steps(rule, directions) == pytest.approx(expected, rel=1e-6)


def test_the_defaults_of_rules_are_the_published_ones() -> None:
    assert Adam() == Adam(0.1, (0.9, 0.99), 1e-3)
    assert Yogi() == Yogi(0.1, (0.9, 0.99), 1e-3)
    assert (HeavyBall().momentum, Nesterov(), SlowMomentum()) == (0.9, Nesterov(0.7, 0.9), SlowMomentum(1.0, 0.7))
    assert DelayedNesterov() == DelayedNesterov(0.7, 0.9, None, 0.0)
    assert PolynomialStaleness().power == 0.5


def test_delayed_momentum_comes_after_as_many_updates_as_there_are_workers_or_as_were_set() -> None:
    given = [4.0, 8.0, 2.0, -2.0, 1.0, 5.0]
    assert steps(DelayedNesterov(spread=0.5), given, workers=3) == steps(DelayedNesterov(every=3, spread=0.5), given, workers=2)
    assert steps(DelayedNesterov(), given) == pytest.approx(steps(Nesterov(), given))
    rule = DelayedNesterov(1.0, 0.5)
    state = rule.initial(ONE)
    for _ in range(2):
        _, state = rule.step(torch.tensor([4.0]), state, 0.1, 3)
    step, state = rule.step(torch.tensor([4.0]), state, 0.1, 2)  # two of three workers are left: the sum is of more than two
    assert (step.item(), state["count"].item(), state["sum"].item()) == (4 + 2 * 0.5 * 6, 0, 0)


EVERY_RULE = pytest.mark.parametrize("rule", dict.fromkeys([*RULES, Adagrad(), DelayedNesterov()]), ids=repr)


@EVERY_RULE
def test_a_rule_steps_for_one_worker_unless_it_is_given_more(rule: Rule) -> None:
    assert torch.equal(rule.step(A, rule.initial(LAYOUT), 0.1)[0], rule.step(A, rule.initial(LAYOUT), 0.1, 1)[0])


@EVERY_RULE
def test_the_state_of_a_rule_keeps_its_entries_types_and_shapes(rule: Rule) -> None:
    state = rule.initial(LAYOUT)
    kept = rule.step(A, state, 0.1)[1]
    for found in (kept, rule.step(B, kept, 0.1)[1]):
        assert {k: (v.dtype, v.shape) for k, v in found.items()} == {k: (v.dtype, v.shape) for k, v in state.items()}
    assert all(torch.equal(state[k], v) for k, v in rule.initial(LAYOUT).items()), "a state is not written to"


@pytest.mark.long  # torch takes seconds to prepare for its meta device
@EVERY_RULE
def test_a_rule_steps_on_the_device_of_the_direction(rule: Rule) -> None:
    step, kept = rule.step(A.to("meta"), rule.initial(LAYOUT), 0.1)
    assert {step.device.type, *(tensor.device.type for tensor in kept.values() if tensor.dim())} == {"meta"}


@pytest.mark.parametrize(
    ("groups", "momentum", "expected"),
    [(1, 0.75, 0.75), (2, 0.75, 0.25), (4, 0.9375, 0.1875), (4, 0.75, 0.0), (2, 0.25, 0.0), (2, 0.0, 0.0)],
)
def test_groups_that_step_one_by_one_take_their_implicit_momentum_off(groups: int, momentum: float, expected: float) -> None:
    assert HeavyBall.beside(groups, momentum).momentum == expected


@pytest.mark.parametrize("momentum", [-0.5, 1.0, 1.5])
def test_a_momentum_that_diverges_is_refused_as_given_for_several_groups_too(momentum: float) -> None:
    with pytest.raises(CompositionError) as refusal:
        HeavyBall.beside(2, momentum)
    assert str(refusal.value) == f"HeavyBall(momentum={momentum}) would not converge: give at least 0 and less than 1."
    with pytest.raises(CompositionError, match=r"^HeavyBall\.beside\(groups=0\) has nobody who steps: give 1 or more\.$"):
        HeavyBall.beside(0, momentum)


def check(direction: Direction, total: Tensor, weight: float, divisor: float) -> None:
    torch.testing.assert_close(direction.total, total)
    assert (direction.weight, direction.divisor) == pytest.approx((weight, divisor), rel=1e-12)


def test_shares_are_in_proportion_to_samples_and_one_where_these_are_not_known() -> None:
    assert shares([1, 3]) == [0.5, 1.5]
    assert shares([2, 0, 6]) == [0.5, 1, 1.5]
    assert shares([0.5, 0.5]) == shares([0, 0]) == [1, 1]
    assert shares([0]) == [1]


def test_contributions_are_weighted_by_their_samples() -> None:
    context = context_of(8)
    check(SampleMean().combine([Contribution(A, samples=1), Contribution(B, samples=3)], context), 0.5 * A + 1.5 * B, 2, 2)
    check(SampleMean().combine([Contribution(A, 2, samples=3), Contribution(B, samples=1)], context), 1.5 * A + 0.5 * B, 3.5, 3)
    check(SampleMean().combine([Contribution(A), Contribution(B)], context), A + B, 2, 2)
    single = SampleMean().combine([Contribution(A, samples=5)], context)
    assert single.total is A, "a share of 1 multiplies nothing"


def test_batches_are_weighed_by_the_mean_of_the_latest_of_all_workers() -> None:
    def came(worker: int, value: Tensor, samples: float, count: int = 1) -> Contribution:
        return Contribution(value, count, sender=f"worker/{worker}", samples=samples)

    first = BatchWeighted().combine([came(1, B, 2), came(2, C, 6)], context_of(3))
    check(first, 0.5 * B + 1.5 * C, 2, 3)
    assert first.state == {"worker/1": 2, "worker/2": 6}
    second = BatchWeighted().combine([came(0, A, 1)], replace(context_of(3), state=first.state))
    check(second, A / 3, 1 / 3, 3)
    assert second.state == {"worker/0": 1, "worker/1": 2, "worker/2": 6}
    assert first.state == {"worker/1": 2, "worker/2": 6}, "a state is not written to"
    unknown = BatchWeighted().combine([came(1, B, 0, 2), came(2, C, 3)], replace(context_of(3), state=second.state))
    check(unknown, B + 1.5 * C, 3.5, 3)
    assert unknown.state == {"worker/0": 1, "worker/1": 2, "worker/2": 3}
    left = BatchWeighted().combine([came(3, B, 4)], replace(context_of(3), state=unknown.state))
    check(left, 1.6 * B, 1.6, 3)


def test_a_proximal_step_keeps_the_state_of_the_merge_inside() -> None:
    context = replace(context_of(2), source=lambda: torch.zeros(4))
    direction = ProximalSGD(inner=BatchWeighted()).combine([Contribution(A, sender="worker/1", samples=4, rates=(0.1,))], context)
    assert direction.state == {"worker/1": 4}


def test_late_contributions_count_by_a_power_of_their_staleness() -> None:
    group = [Contribution(A), Contribution(B, staleness=3), Contribution(C, staleness=8)]
    check(PolynomialStaleness().combine(group, context_of(9)), A + B / 2 + C / 3, 11 / 6, 3)
    check(PolynomialStaleness(1.0).combine(group, context_of(9)), A + B / 4 + C / 9, 49 / 36, 3)
    check(PolynomialStaleness(0.0).combine(group, context_of(9)), A + B + C, 3, 3)
    check(PolynomialStaleness().combine([Contribution(A, 4, 3), Contribution(B, 2)], context_of(9)), A / 2 + B, 4, 6)


def test_the_rate_grows_linearly_to_that_of_all_workers() -> None:
    assert [LinearScaling(4).scale(step, 8) for step in (0, 1, 2, 4, 5, 6)] == [1, 1, 2.75, 6.25, 8, 8]
    assert [LinearScaling(4, 3.0).scale(step, 8) for step in (1, 3, 9)] == [1, 2, 3]
    assert [LinearScaling(factor=0.5).scale(step, 8) for step in (0, 1, 9)] == [0.5, 0.5, 0.5]
    assert [LinearScaling(1).scale(step, 8) for step in (1, 2)] == [1, 8]
    group = [Contribution(A, clock=2), Contribution(B, clock=3)]
    check(LinearScaling(4).combine(group, context_of(8, clock=9)), A + B, 2, 8 / 4.5)
    check(LinearScaling(4).combine([Contribution(A + B, 8)], context_of(8, clock=3)), A + B, 8, 8 / 4.5)
    check(LinearScaling().combine(group, context_of(8)), A + B, 2, 1)


def test_the_rate_grows_by_the_square_root_of_the_batch() -> None:
    check(SquareRootScaling().combine([Contribution(A), Contribution(B)], context_of(16)), A + B, 2, 4)
    check(SquareRootScaling(9.0).combine([Contribution(A), Contribution(B)], context_of(6)), A + B, 2, 2)
    assert (SquareRootScaling().scale(7, 9), SquareRootScaling(0.25).scale(7, 9)) == (3, 0.5)
    assert (scale_of_all(SquareRootScaling(), 1, 4), scale_of_all(Mean(), 1, 4), scale_of_all(Sum(), 1, 4)) == (2, 1, 4)


WEIGHTS = torch.tensor([3.0, 4, 0, 0, 6, 8, 1, 0])
LAYERS = Layout(("moves", "zero weights", "zero gradient", "none"), ((2,), (2, 1), (2,), (2,)))
GRADIENT = torch.tensor([0.0, 8, 5, 5, 0, 0, NO_GRADIENT, NO_GRADIENT])


def layers(clock: int = 0, workers: int = 2) -> ExchangeContext:
    return replace(context_of(workers, clock=clock), layout=LAYERS, source=lambda: WEIGHTS)


def moved(merge: LARS | LARC, rates: tuple[float, ...] = (0.25,)) -> tuple[list[float], float]:
    """The mean that layer-wise scaling makes of the gradient of two workers, and the scale of their rates."""
    direction = merge.combine([Contribution(2 * GRADIENT, 2, rates=rates)], layers())
    assert direction.average()[2:].view(torch.int32).tolist() == GRADIENT[2:].view(torch.int32).tolist(), "left as it was, to the bit"
    return direction.average()[:2].tolist(), direction.scale


def test_a_layer_moves_by_a_part_of_its_norm() -> None:
    assert moved(LARS(0.5)) == (pytest.approx([0, 8 * 0.5 * 5 / 8]), 1)
    ratio = 0.5 * 5 / (8 + 0.4 * 5)
    assert moved(LARS(0.5, 0.4)) == (pytest.approx([0.4 * 3 * ratio, (8 + 0.4 * 4) * ratio]), 1)
    assert moved(LARS(0.5, inner=LinearScaling())) == (pytest.approx([0, 2.5]), 2)
    assert (LARS(), LARC()) == (LARS(0.001, 0.0, Mean()), LARC(0.02, 0.0, Mean()))


def test_a_layer_behind_one_that_is_left_moves_too() -> None:
    layout = Layout(("none", "moves"), ((2,), (2,)))
    context = replace(context_of(1), layout=layout, source=lambda: torch.tensor([1.0, 0, 3, 4]))
    direction = LARS(0.5).combine([Contribution(torch.tensor([NO_GRADIENT, NO_GRADIENT, 0, 8]))], context)
    torch.testing.assert_close(direction.average(), torch.tensor([-0.0, -0.0, 0, 2.5]))


def test_large_numbers_have_a_norm_and_a_zero_keeps_its_sign() -> None:
    large = replace(layers(), source=lambda: WEIGHTS * 1e20)
    direction = LARS(0.5).combine([Contribution(GRADIENT * 1e20)], large)
    torch.testing.assert_close(direction.average()[:2], torch.tensor([0.0, 2.5e20]))
    signed = GRADIENT.clone()
    signed[0] = -0.0
    assert LARS(0.5).combine([Contribution(signed)], layers()).average()[0].signbit()
    assert not LARS(0.5, 0.1).combine([Contribution(signed)], layers()).average()[0].signbit()


def test_a_clipped_layer_moves_no_further_than_by_the_learning_rate() -> None:
    ratio = 0.1 * 5 / 8  # 1/16
    assert moved(LARC(0.1)) == (pytest.approx([0, 8 * ratio / 0.25]), 1)
    assert moved(LARC(0.1), (0.125, 7.0)) == (pytest.approx([0, 8 * ratio / 0.125]), 1)
    assert moved(LARC(0.1), (0.03125,)) == (pytest.approx([0, 8]), 1)
    assert moved(LARC(0.1), ()) == (pytest.approx([0, 8 * ratio]), 1), "without a rate it is 1"
    assert moved(LARC(0.1), (0.0,)) == (pytest.approx([0, 8]), 1), "and 0 moves nothing"
    assert moved(LARC(0.1, inner=LinearScaling())) == (pytest.approx([0, 8 * ratio / 0.5]), 2), "the rate is that of both"


def test_an_outer_optimizer_requires_what_the_merge_inside_does() -> None:
    for inner in (Mean(), SampleMean(), BatchWeighted()):
        traits = OuterOptimizer(Nesterov(), inner).traits
        assert (traits.requires, traits.averages) == (inner.traits.requires, False)
    assert OuterOptimizer(Nesterov()).inner == Mean()
