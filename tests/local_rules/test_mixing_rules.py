"""Rules that send other vectors in the place of weights, or in addition to them: D², exact diffusion, gradient tracking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from endpoints import context_of
from torch import Tensor, nn
from toy import Toy, weights

from polyrhythm import systems
from polyrhythm.core.protocols.local import LocallyStepped, LocalRule
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.local_rules import CorrectedWeights, PlainSteps, TrackedGradients
from polyrhythm.topology import Lazy, MetropolisHastings, RingGraph, WeightedGossip
from polyrhythm.topology.graphs.mixing_weights import matrix

WORKERS, SIZE, RATE = 5, 3, 0.05
LAYOUT = Layout(("w",), ((SIZE,),))
DIFFERENT = ("d-squared", "exact-diffusion", "gradient-tracking")


def problem(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Curvatures (P, n, n) and pulls (P, n): worker k has the gradient H_k x - b_k, and no two have their least in one place."""
    draw = torch.Generator().manual_seed(seed)
    roots = torch.randn(WORKERS, SIZE, SIZE, generator=draw, dtype=torch.float64)
    return roots @ roots.mT + torch.eye(SIZE, dtype=torch.float64), 5 * torch.randn(WORKERS, SIZE, generator=draw, dtype=torch.float64)


def mixing_of(system: str) -> Tensor:
    topology: Any = systems.find(system).topology
    return torch.from_numpy(matrix(topology.graph, topology.weights, WORKERS))


def simulated(rule: LocalRule, mixing: Tensor, steps: int, watch: Callable[[Tensor, Tensor], None] = lambda g, y: None) -> Tensor:
    """The weights (P, n) after SGD steps on the problem, each mixed; `watch` sees the gradients and what was stepped on."""
    curvature, pull = problem()
    hooks = rule.hooks
    x, states = torch.zeros(WORKERS, SIZE, dtype=torch.float64), [hooks.initial(LAYOUT) for _ in range(WORKERS)]
    for _ in range(steps):
        gradients = torch.einsum("kij,kj->ki", curvature, x) - pull
        y = gradients
        if hooks.correct is not None:
            y = torch.stack([hooks.correct(g, context_of(WORKERS), state) for g, state in zip(gradients, states, strict=True)])
        watch(gradients, y)
        stepped = x - RATE * y
        if hooks.mixing is None:
            x = mixing @ stepped
            continue
        sent = [hooks.mixing.send(LocallyStepped(w, x[k], y[k].clone), states[k]) for k, w in enumerate(stepped)]
        mixed = [mixing @ torch.stack(vectors) for vectors in zip(*sent, strict=True)]
        taken = [hooks.mixing.take([each[k] for each in mixed], sent[k], states[k]) for k in range(WORKERS)]
        x, states = torch.stack([w for w, _ in taken]), [state for _, state in taken]
    taken_by_all = torch.stack([state.get("taken", torch.zeros(SIZE)) for state in states]).sum(0)
    torch.testing.assert_close(taken_by_all, torch.zeros(SIZE), check_dtype=False, rtol=0, atol=1e-5)
    return x


def least() -> Tensor:
    """Where the sum of all workers' losses is least."""
    curvature, pull = problem()
    return torch.linalg.solve(curvature.sum(0), pull.sum(0))


@pytest.mark.parametrize("system", DIFFERENT)
def test_a_constant_step_ends_at_the_optimum_where_plain_mixing_ends_next_to_it(system: str) -> None:
    exact = simulated(systems.find(system).local, mixing_of(system), 600)
    torch.testing.assert_close(exact, least().expand(WORKERS, SIZE), check_dtype=False, rtol=0, atol=1e-4)
    mixed = simulated(PlainSteps(), mixing_of(system), 600)
    assert (mixed.mean(0) - least()).norm() > 1e-2


def test_the_mean_of_what_is_stepped_on_is_the_mean_gradient_at_every_step() -> None:
    def watch(gradients: Tensor, y: Tensor) -> None:
        torch.testing.assert_close(y.mean(0), gradients.mean(0), rtol=0, atol=1e-5)

    simulated(TrackedGradients(), mixing_of("gradient-tracking"), 50, watch)


def ran(system: str, steps: int) -> Tensor:
    """The weights (P, n) of all workers after so many steps on the problem, in a run."""
    curvature, pull = problem()
    found = torch.zeros(WORKERS, SIZE, dtype=torch.float64)

    def train(worker: Any) -> None:
        w = nn.Parameter(torch.zeros(SIZE, dtype=torch.float64))
        _, optimizer = worker.attach(nn.ParameterList([w]), torch.optim.SGD([w], lr=RATE))
        for _ in range(steps):
            worker.count(1)
            w.grad = curvature[worker.rank] @ w.detach() - pull[worker.rank]
            optimizer.step()
        found[worker.rank] = w.detach()

    run(train, workers=WORKERS, strategy=system, on=Simulator(network=Instant()))
    return found


@pytest.mark.parametrize("system", ["decentralized", *DIFFERENT])
def test_a_run_is_the_recursion_of_the_paper(system: str) -> None:
    curvature, pull = problem()
    mixing, steps = mixing_of(system), 6

    def gradient(x: Tensor) -> Tensor:
        return torch.einsum("kij,kj->ki", curvature, x) - pull

    x = torch.zeros(WORKERS, SIZE, dtype=torch.float64)
    y, before = gradient(x), x
    xs = [x]
    for step in range(steps):
        if system == "decentralized":
            x = mixing @ (x - RATE * gradient(x))
        elif system == "gradient-tracking":
            y = y if step == 0 else mixing @ y + gradient(x) - gradient(xs[-2])
            x = mixing @ (x - RATE * y)
        elif step == 0:
            x = mixing @ (x - RATE * gradient(x))
        else:
            before = xs[-2]
            x = mixing @ (2 * x - before - RATE * gradient(x) + RATE * gradient(before))
        xs.append(x)
    torch.testing.assert_close(ran(system, steps), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("system", DIFFERENT)
def test_alone_and_with_momentum_too_a_rule_changes_nothing(system: str) -> None:
    momentum = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
    torch.testing.assert_close(weights(momentum, 1, system), weights(momentum, 1, "single"), rtol=0, atol=0)


def test_exact_diffusion_is_d_squared_with_a_lazier_matrix() -> None:
    lazy = systems.find("d-squared", own_share=0.5)
    assert lazy.topology == systems.find("exact-diffusion").topology == WeightedGossip(RingGraph(), Lazy(MetropolisHastings(), 0.5))
    assert lazy.local == systems.find("exact-diffusion").local == CorrectedWeights()
