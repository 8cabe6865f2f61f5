"""Environments do what their transitions say, and the exact solutions are those of the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from polyrhythm.core import rng
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.actors import CartPole, Environment, RewardChain

ENVIRONMENTS: list[Environment] = [RewardChain(), RewardChain(states=3, slip=0.0, horizon=4), CartPole(horizon=30)]
each_environment = pytest.mark.parametrize("environment", ENVIRONMENTS, ids=repr)


@each_environment
def test_a_course_continues_from_its_state_bit_for_bit(environment: Environment) -> None:
    actions = np.random.default_rng(5).integers(environment.actions, size=200).tolist()
    play = environment.play(rng.stream(1, "play"))
    for action in actions[:100]:
        play.act(action)
    kept = play.state_dict()
    expected = [play.act(action) for action in actions[100:]]
    other = environment.play(rng.stream(2, "play"))
    other.load_state_dict(kept)
    for action, transition in zip(actions[100:], expected, strict=True):
        found = other.act(action)
        assert torch.equal(found.following, transition.following)
        assert found[2:] == transition[2:]
        assert found.reward == transition.reward


@each_environment
def test_a_new_episode_begins_when_one_is_over(environment: Environment) -> None:
    play = environment.play(rng.stream(0, "play"))
    over = [transition for transition in (play.act(0) for _ in range(120)) if transition.over]
    assert over
    assert all(transition.following.shape == (environment.observed,) for transition in over)


def test_frequencies_of_a_chain_are_its_chances() -> None:
    chain = RewardChain(states=3, slip=0.2, horizon=10**9)
    process, play = chain.process(), chain.play(rng.stream(3, "play"))
    draw = np.random.default_rng(0)
    counts, rewards = torch.zeros(2, 3, 3), torch.zeros(3, 2)
    for _ in range(6000):
        state, action = play.state, int(draw.integers(2))
        rewards[state, action] += play.act(action).reward
        counts[action, state, play.state] += 1
    tries = counts.sum(dim=2, keepdim=True)
    assert float((counts / tries - process.chances).abs().max()) < 0.05
    assert float((rewards / tries[:, :, 0].T - process.rewards).abs().max()) < 0.05


def test_value_iteration_finds_the_best_of_all_deterministic_policies() -> None:
    process = RewardChain(states=5).process()
    best = max(
        float(process.values_of(torch.nn.functional.one_hot(torch.tensor(actions), 2).double())[0])
        for actions in itertools.product((0, 1), repeat=5)
    )
    assert abs(float(process.optimum()[0]) - best) < 1e-9


def test_the_score_of_the_best_policy_is_one_and_of_the_greedy_trap_far_less() -> None:
    chain = RewardChain()
    always = [torch.nn.Linear(8, 2) for _ in range(2)]
    for k, policy in enumerate(always):
        torch.nn.init.zeros_(policy.weight)
        policy.bias.data = torch.tensor([0.0, 0.0])
        policy.bias.data[1 - k] = 1e3
    assert abs(chain.score(always[0], 0) - 1) < 1e-9
    assert chain.score(always[1], 0) < 0.5


def test_absurd_chains_are_refused() -> None:
    for wrong in ({"states": 1}, {"horizon": 0}, {"slip": 0.5}, {"discount": 1.0}):
        with pytest.raises(WorkloadError, match="A chain was given"):
            RewardChain(**wrong)  # type: ignore[arg-type]
