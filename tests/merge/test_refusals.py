"""What a merge or a rule of it refuses: the whole message, and the settings next to those that are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.merge import (
    LARC,
    LARS,
    Adagrad,
    Adam,
    DelayedNesterov,
    Elastic,
    FrozenAdam,
    HeavyBall,
    LinearScaling,
    Mean,
    Nesterov,
    OuterOptimizer,
    ParzenGate,
    PolynomialStaleness,
    ProximalSGD,
    SampleMean,
    SignDescent,
    SlowMomentum,
    SquareRootScaling,
    Sum,
    Yogi,
)

BETAS = "cannot step: give a positive learning rate and adaptivity, and betas of at least 0 and below 1."
SPREAD = (
    "cannot step: give a positive learning rate, a momentum of at least 0 and below 1, every=1 update or more, and a spread from 0 to 1."
)
WARMUP = "cannot step: the warm-up has at least 1 step, betas are 0 or more and below 1, and epsilon is positive."
POSITIVE = "cannot step: the learning rate and epsilon must be positive, initial_sum at least 0."
DIVERGES = "would not converge: give a positive learning rate and a momentum of at least 0 and below 1."
SLOW = "would not converge: give a positive alpha, and a beta of at least 0 and below 1."
TRUST = "cannot step: trust must be positive (papers take 0.001 for LARS, and 0.02 for LARC), weight_decay at least 0."
PULL = (
    "overshoots or does not pull: beta is the part of the distance that the centre moves when all workers have exchanged once, between 0 "
    "and 1; the paper takes 0.9."
)
GATE = "does not pull, or goes beyond the mean: give a number above 0, at most 1."
PENALTY = "cannot step: penalty and per_delay must be numbers of at least 0."


def delayed(rate: float = 0.7, momentum: float = 0.9, every: int | None = None, spread: float = 0.0) -> str:
    return f"DelayedNesterov(learning_rate={rate}, momentum={momentum}, every={every}, spread={spread})"


def frozen(warmup: int = 2, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> str:
    return f"FrozenAdam(warmup={warmup}, beta1={beta1}, beta2={beta2}, epsilon={epsilon})"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (
                lambda kind=kind, given=(rate, betas, least): kind(*given),
                f"{kind.__name__}(learning_rate={rate}, betas={betas}, adaptivity={least}) {why}",
            )
            for kind in (Adam, Yogi)
            for rate, betas, least, why in [
                (0.0, (0.9, 0.99), 0.1, BETAS),
                (0.1, (1.0, 0.99), 0.1, BETAS),
                (0.1, (0.9, 1.0), 0.1, BETAS),
                (0.1, (-0.1, 0.9), 0.1, BETAS),
                (0.1, (0.9, 0.99), 0.0, BETAS),
                (0.1, (0.9, 0.99), 2e19, "has an adaptivity whose square float32 cannot hold: give at most 1e+19."),
            ]
        ),
        (lambda: DelayedNesterov(0.0), f"{delayed(0.0)} {SPREAD}"),
        (lambda: DelayedNesterov(momentum=1.0), f"{delayed(momentum=1.0)} {SPREAD}"),
        (lambda: DelayedNesterov(momentum=-0.1), f"{delayed(momentum=-0.1)} {SPREAD}"),
        (lambda: DelayedNesterov(every=0), f"{delayed(every=0)} {SPREAD}"),
        (lambda: DelayedNesterov(spread=-0.1), f"{delayed(spread=-0.1)} {SPREAD}"),
        (lambda: DelayedNesterov(spread=1.1), f"{delayed(spread=1.1)} {SPREAD}"),
        (lambda: FrozenAdam(0), f"{frozen(0)} {WARMUP}"),
        (lambda: FrozenAdam(2, 1.0), f"{frozen(beta1=1.0)} {WARMUP}"),
        (lambda: FrozenAdam(2, -0.1), f"{frozen(beta1=-0.1)} {WARMUP}"),
        (lambda: FrozenAdam(2, beta2=1.0), f"{frozen(beta2=1.0)} {WARMUP}"),
        (lambda: FrozenAdam(2, beta2=-0.1), f"{frozen(beta2=-0.1)} {WARMUP}"),
        (lambda: FrozenAdam(2, epsilon=0.0), f"{frozen(epsilon=0.0)} {WARMUP}"),
        (lambda: Adagrad(0.0), f"Adagrad(learning_rate=0.0, initial_sum=0.0, epsilon=1e-08) {POSITIVE}"),
        (lambda: Adagrad(None, -0.1), f"Adagrad(learning_rate=None, initial_sum=-0.1, epsilon=1e-08) {POSITIVE}"),
        (lambda: Adagrad(None, 0.0, 0.0), f"Adagrad(learning_rate=None, initial_sum=0.0, epsilon=0.0) {POSITIVE}"),
        (
            lambda: Adagrad(None, 3.1e38),
            "Adagrad(learning_rate=None, initial_sum=3.1e+38, epsilon=1e-08) begins with a sum that float32 cannot hold: "
            "give at most 3e+38.",
        ),
        (lambda: Nesterov(0.0), f"Nesterov(learning_rate=0.0, momentum=0.9) {DIVERGES}"),
        (lambda: Nesterov(0.7, 1.0), f"Nesterov(learning_rate=0.7, momentum=1.0) {DIVERGES}"),
        (lambda: Nesterov(0.7, -0.1), f"Nesterov(learning_rate=0.7, momentum=-0.1) {DIVERGES}"),
        (lambda: HeavyBall(1.0), "HeavyBall(momentum=1.0) would not converge: give at least 0 and less than 1."),
        (lambda: HeavyBall(-0.1), "HeavyBall(momentum=-0.1) would not converge: give at least 0 and less than 1."),
        (lambda: SlowMomentum(0.0), f"SlowMomentum(alpha=0.0, beta=0.7) {SLOW}"),
        (lambda: SlowMomentum(1.0, 1.0), f"SlowMomentum(alpha=1.0, beta=1.0) {SLOW}"),
        (lambda: SlowMomentum(1.0, -0.1), f"SlowMomentum(alpha=1.0, beta=-0.1) {SLOW}"),
        (lambda: SignDescent(0.0), "SignDescent(learning_rate=0.0) cannot step: the learning rate must be positive."),
        *(
            (
                lambda kind=kind, given=given: kind(*given),
                f"{kind.__name__}(trust={given[0]}, weight_decay={given[1]}, inner=Mean()) {TRUST}",
            )
            for kind in (LARS, LARC)
            for given in ((0.0, 0.0), (-0.1, 0.0), (0.1, -0.1))
        ),
        *(
            (
                lambda kind=kind: kind(0.1, inner=SampleMean()),
                f"{kind.__name__}(trust=0.1, weight_decay=0.0, inner=SampleMean()) scales the mean of gradients, and SampleMean() is none: "
                "give it Mean() or LinearScaling(...).",
            )
            for kind in (LARS, LARC)
        ),
        (lambda: Elastic(0.0), f"Elastic(beta=0.0) {PULL}"),
        (lambda: Elastic(1.0), f"Elastic(beta=1.0) {PULL}"),
        (lambda: ParzenGate(0.0), f"ParzenGate(rate=0.0) {GATE}"),
        (lambda: ParzenGate(1.5), f"ParzenGate(rate=1.5) {GATE}"),
        (lambda: LinearScaling(-1), "LinearScaling(warmup=-1) is no number of steps: give 0 or more."),
        (lambda: LinearScaling(0, 0.0), "LinearScaling(factor=0.0) would not train: give a positive factor, or leave it out."),
        (lambda: SquareRootScaling(0.0), "SquareRootScaling(factor=0.0) would not train: give a positive factor, or leave it out."),
        (
            lambda: SquareRootScaling(float("inf")),
            "SquareRootScaling(factor=inf) would not train: give a positive factor, or leave it out.",
        ),
        (
            lambda: PolynomialStaleness(-0.5),
            "PolynomialStaleness(power=-0.5) would have late contributions count more: give a power of 0 (all count alike) or more.",
        ),
        (lambda: ProximalSGD(-1.0), f"ProximalSGD(penalty=-1.0, per_delay=0.0, inner=Mean()) {PENALTY}"),
        (lambda: ProximalSGD(float("inf")), f"ProximalSGD(penalty=inf, per_delay=0.0, inner=Mean()) {PENALTY}"),
        (lambda: ProximalSGD(0.0, -1.0), f"ProximalSGD(penalty=0.0, per_delay=-1.0, inner=Mean()) {PENALTY}"),
        (lambda: ProximalSGD(0.0, float("inf")), f"ProximalSGD(penalty=0.0, per_delay=inf, inner=Mean()) {PENALTY}"),
        (
            lambda: ProximalSGD(0.1, inner=Elastic()),  # type: ignore[arg-type]
            "ProximalSGD(penalty=0.1, per_delay=0.0, inner=Elastic(beta=0.9)) needs a sum of gradients: give it a merge without an "
            "optimizer, such as Mean().",
        ),
        (
            lambda: OuterOptimizer(Nesterov(), Elastic()),  # type: ignore[arg-type]
            "OuterOptimizer(inner=Elastic(beta=0.9)) has no direction to step along: Elastic merges weights only. Give it a merge of "
            "gradients or updates, such as Mean().",
        ),
        (
            lambda: OuterOptimizer(Nesterov(), ProximalSGD()),
            "OuterOptimizer(inner=ProximalSGD(penalty=0.0, per_delay=0.0, inner=Mean())) would leave one of two optimizers out: give it "
            "a merge without one, such as Mean().",
        ),
    ],
)
def test_a_refusal_names_what_was_given_the_reason_and_the_remedy(make: Callable[[], object], message: str) -> None:
    with pytest.raises(CompositionError) as refusal:
        make()
    assert str(refusal.value) == message


def test_settings_at_the_bounds_are_taken() -> None:
    for kind in (Adam, Yogi):
        assert kind(1e-9, (0.0, 0.0), 1e19).adaptivity == 1e19
    for spread in (0.0, 1.0):
        assert DelayedNesterov(0.5, 0.0, 1, spread).every == 1
    assert FrozenAdam(1, 0.0, 0.0, 1e-9).warmup == 1
    assert Adagrad(1.0, 3e38).initial_sum == 3e38
    assert (HeavyBall(0.0).momentum, Nesterov(1e-9, 0.0).momentum, SlowMomentum(1e-9, 0.0).beta) == (0, 0, 0)
    assert (ParzenGate(1.0).rate, LinearScaling(0, 0.5).factor, LinearScaling(1).warmup, SquareRootScaling(0.5).factor) == (1, 0.5, 1, 0.5)
    assert (PolynomialStaleness(0.0).power, ProximalSGD(0.0, 0.0, Sum()).inner) == (0, Sum())
    assert (LARS(1e-9, 0.0, LinearScaling()).inner, LARC(1e-9, 0.0, Mean()).inner) == (LinearScaling(), Mean())
