"""Finite Markov decision processes, solved exactly: the values that learners are compared with."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class DecisionProcess(NamedTuple):
    """`chances` (A, S, S) of the next state by action and state, expected `rewards` (S, A), both float64, and the `discount` below 1."""

    chances: Tensor
    rewards: Tensor
    discount: float

    def action_values(self, values: Tensor) -> Tensor:
        """The values (S, A) of an action now, and states worth `values` (S,) afterwards."""
        return self.rewards + self.discount * (self.chances @ values).T

    def optimum(self, tolerance: float = 1e-12) -> Tensor:
        """The values (S,) of the best policy, by value iteration (Bellman, 1957), to within `tolerance`."""
        values = torch.zeros(len(self.rewards), dtype=torch.float64)
        while True:
            better = self.action_values(values).amax(dim=1)
            if float((better - values).abs().max()) * self.discount <= tolerance * (1 - self.discount):
                return better
            values = better

    def values_of(self, policy: Tensor) -> Tensor:
        """The values (S,) of a policy that takes action a in state s with the chance `policy[s, a]`: a system of linear equations."""
        moves = torch.einsum("sa,ast->st", policy, self.chances)
        every = torch.eye(len(moves), dtype=torch.float64)
        solved: Tensor = torch.linalg.solve(every - self.discount * moves, (policy * self.rewards).sum(dim=1))
        return solved
