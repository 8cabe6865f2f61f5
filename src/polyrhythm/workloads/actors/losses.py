"""The losses of reinforcement learners, as functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Costs(NamedTuple):
    """What the error of the values and the entropy of the policy count beside the policy's gradient."""

    value: float = 0.5
    entropy: float = 0.01


def actor_critic_loss(logits: Tensor, values: Tensor, actions: Tensor, returns: Tensor, costs: Costs) -> Tensor:
    """The mean over frames of −log π(a) (G − v) + value (G − v)² − entropy H(π) (Mnih et al., 2016, section 4).

    `logits` (T, A), `values`, `actions` and `returns` (T,). Gradients flow through the policy and through v in the second term alone.
    """
    logs = logits.log_softmax(dim=1)
    chosen = logs.gather(1, actions.unsqueeze(1)).squeeze(1)
    advantages = returns.detach() - values
    entropy = -(logs.exp() * logs).sum(dim=1)
    return (-chosen * advantages.detach() + costs.value * advantages.square() - costs.entropy * entropy).mean()


def q_targets(rewards: Tensor, discounts: Tensor, following: Tensor) -> Tensor:
    """r + γ max_a Q(s', a) (T,), for the values `following` (T, A) of a target network (Mnih et al., 2015)."""
    return rewards + discounts * following.amax(dim=1)


def double_q_targets(rewards: Tensor, discounts: Tensor, following: Tensor, chosen_by: Tensor) -> Tensor:
    """r + γ Q(s', argmax_a Q'(s', a)) (T,): one network values what the other chooses (van Hasselt, Guez, Silver, 2016).

    `following` (T, A) are the target network's values, `chosen_by` (T, A) those of the network that learns.
    """
    choice = chosen_by.argmax(dim=1, keepdim=True)
    return rewards + discounts * torch.gather(following, 1, choice).squeeze(1)
