"""Returns of a rollout of frames: what was earned, and what is expected to follow."""

from __future__ import annotations

import torch
from torch import Tensor


def lambda_returns(rewards: Tensor, discounts: Tensor, following: Tensor, lambdas: Tensor) -> Tensor:
    """The λ-returns G_t = r_t + γ_t ((1 − λ_t) v_t + λ_t G_t+1), all (T,), where v_t is the value of what follows frame t.

    After the last frame v_T alone follows. γ_t is 0 where nothing does; λ_t = 0 cuts the sum at a frame after which the next in the
    rollout does not follow. (Sutton and Barto, 2018, section 12.1.)
    """
    returns, after = torch.empty_like(rewards), following[-1]
    for t in range(len(rewards) - 1, -1, -1):
        after = rewards[t] + discounts[t] * ((1 - lambdas[t]) * following[t] + lambdas[t] * after)
        returns[t] = after
    return returns


def n_step_returns(rewards: Tensor, discounts: Tensor, following: Tensor, n: int) -> Tensor:
    """The returns of n frames and the value of what follows the last of them; of fewer at the end of the rollout. All (T,).

    G_t = r_t + γ_t r_t+1 + … + γ_t ⋯ γ_t+n−1 v_t+n−1, with v and γ as in `lambda_returns` (Mnih et al., 2016, section 4).
    """
    last = len(rewards) - 1
    returns = []
    for t in range(len(rewards)):
        end = min(t + n - 1, last)
        after = following[end]
        for k in range(end, t - 1, -1):
            after = rewards[k] + discounts[k] * after
        returns.append(after)
    return torch.stack(returns)
