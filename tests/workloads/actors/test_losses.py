"""Returns and losses equal values that were worked out by hand, and each other where the definitions meet."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.workloads.actors import actor_critic_loss, double_q_targets, lambda_returns, n_step_returns, q_targets
from polyrhythm.workloads.actors.losses import Costs

EXACT = {"rtol": 0.0, "atol": 1e-6}
REWARDS, DISCOUNTS, FOLLOWING = torch.tensor([1.0, 2.0, 3.0]), torch.full((3,), 0.5), torch.tensor([4.0, 8.0, 16.0])


@pytest.mark.parametrize(
    ("n", "by_hand"),
    [
        (1, [1 + 0.5 * 4, 2 + 0.5 * 8, 3 + 0.5 * 16]),
        (2, [1 + 0.5 * 2 + 0.25 * 8, 2 + 0.5 * 3 + 0.25 * 16, 3 + 0.5 * 16]),
        (3, [1 + 0.5 * 2 + 0.25 * 3 + 0.125 * 16, 2 + 0.5 * 3 + 0.25 * 16, 3 + 0.5 * 16]),
    ],
)
def test_n_step_returns_are_those_by_hand(n: int, by_hand: list[float]) -> None:
    torch.testing.assert_close(n_step_returns(REWARDS, DISCOUNTS, FOLLOWING, n), torch.tensor(by_hand), **EXACT)


def test_lambda_returns_are_those_by_hand() -> None:
    last = 3 + 0.5 * 16
    middle = 2 + 0.5 * (0.75 * 8 + 0.25 * last)
    by_hand = [1 + 0.5 * (0.75 * 4 + 0.25 * middle), middle, last]
    torch.testing.assert_close(lambda_returns(REWARDS, DISCOUNTS, FOLLOWING, torch.full((3,), 0.25)), torch.tensor(by_hand), **EXACT)


def test_nothing_is_expected_after_a_terminal_frame() -> None:
    found = lambda_returns(REWARDS, torch.tensor([0.5, 0.0, 0.5]), FOLLOWING, torch.ones(3))
    torch.testing.assert_close(found, torch.tensor([1 + 0.5 * 2, 2.0, 3 + 0.5 * 16]), **EXACT)


def test_a_cut_takes_the_value_of_what_was_seen_last() -> None:
    found = lambda_returns(REWARDS, DISCOUNTS, FOLLOWING, torch.tensor([1.0, 0.0, 1.0]))
    torch.testing.assert_close(found, torch.tensor([1 + 0.5 * (2 + 0.5 * 8), 2 + 0.5 * 8, 3 + 0.5 * 16]), **EXACT)


@given(st.lists(st.tuples(*[st.floats(-2, 2, width=32)] * 3), min_size=1, max_size=8))
def test_lambda_one_is_all_steps_and_lambda_zero_is_one(frames: list[tuple[float, float, float]]) -> None:
    rewards, discounts, following = torch.tensor(frames).T
    for constant, n in ((1.0, len(frames)), (0.0, 1)):
        returns = lambda_returns(rewards, discounts, following, torch.full_like(rewards, constant))
        torch.testing.assert_close(returns, n_step_returns(rewards, discounts, following, n), rtol=1e-5, atol=1e-5)


def test_double_q_values_what_the_other_network_chooses() -> None:
    target, online = torch.tensor([[1.0, 10.0], [5.0, 2.0]]), torch.tensor([[3.0, 2.0], [0.0, 1.0]])
    rewards, discounts = torch.tensor([0.5, 0.25]), torch.tensor([0.9, 0.0])
    torch.testing.assert_close(double_q_targets(rewards, discounts, target, online), torch.tensor([0.5 + 0.9 * 1.0, 0.25]), **EXACT)
    torch.testing.assert_close(q_targets(rewards, discounts, target), torch.tensor([0.5 + 0.9 * 10.0, 0.25]), **EXACT)


def test_the_actor_critic_loss_is_that_by_hand_and_so_are_its_gradients() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]], requires_grad=True)  # chances of 1/4 and 3/4
    values = torch.tensor([2.0], requires_grad=True)
    loss = actor_critic_loss(logits, values, torch.tensor([1]), torch.tensor([5.0]), Costs(value=0.5, entropy=0.1))
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    torch.testing.assert_close(loss, torch.tensor(-math.log(0.75) * 3 + 0.5 * 9 - 0.1 * entropy), **EXACT)
    loss.backward()
    assert values.grad is not None
    assert logits.grad is not None
    torch.testing.assert_close(values.grad, torch.tensor([-3.0]), **EXACT)  # of the squared error alone
    slope = 0.25 * 0.75 * math.log(3.0)  # dH of the logit of an action with 3/4: −p (log p + H)
    torch.testing.assert_close(logits.grad, torch.tensor([[0.75 - 0.1 * slope, -0.75 + 0.1 * slope]]), **EXACT)
