"""Exact probabilities of small Boltzmann machines and belief nets, by the sum over all their states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from polyrhythm.workloads.belief_net.machine import BoltzmannMachine


def states(units: int) -> Tensor:
    """All states (2^units, units) of binary units."""
    return torch.tensor(list(product((0.0, 1.0), repeat=units)), dtype=torch.float64)


def log_likelihood(machine: BoltzmannMachine, visible: Tensor) -> Tensor:
    """log p(v) of visible states (n, visible): (n,)."""
    every = states(machine.visible_bias.numel())
    return -machine.free_energy(visible) - torch.logsumexp(-machine.free_energy(every), dim=0)


def likelihood_gradient(machine: BoltzmannMachine, visible: Tensor, weights: Tensor) -> list[Tensor]:
    """The gradient of the mean of -log p(v) over states (n, visible) with `weights` (n,) that sum to 1, as in `Statistics`."""
    parameters = [machine.weight, machine.visible_bias, machine.hidden_bias]
    return list(torch.autograd.grad(-(weights * log_likelihood(machine, visible)).sum(), parameters))


def variational_bound(below: BoltzmannMachine, above: BoltzmannMachine, visible: Tensor) -> Tensor:
    """The bound on log p(v) of a net of two machines (Hinton, Osindero, Teh, 2006, equation 8), for each of `visible` (n, visible): (n,).

    `below` gives p(v | h) and the approximate posterior q(h | v), `above` the prior p(h).
    """
    every = states(below.hidden_bias.numel())
    chances = below.hidden(visible)
    log_q = _log_bernoulli(every, chances)
    log_joint = _log_bernoulli(visible.unsqueeze(1), below.visible(every).unsqueeze(0)) + log_likelihood(above, every)
    q = log_q.exp()
    return (q * (log_joint - log_q)).sum(dim=1)


def net_log_likelihood(below: BoltzmannMachine, above: BoltzmannMachine, visible: Tensor) -> Tensor:
    """log p(v) of that net: (n,)."""
    every = states(below.hidden_bias.numel())
    down = _log_bernoulli(visible.unsqueeze(1), below.visible(every).unsqueeze(0))
    return torch.logsumexp(down + log_likelihood(above, every), dim=1)


def posterior(below: BoltzmannMachine, visible: Tensor) -> Tensor:
    """The mean over `visible` of q(h | v), for each of the hidden states (2^hidden,): what the machine above is trained on."""
    return _log_bernoulli(states(below.hidden_bias.numel()), below.hidden(visible)).exp().mean(dim=0).detach()


def turned(machine: BoltzmannMachine, above: BoltzmannMachine) -> None:
    """Give `above` the weights of `machine` turned upside down, and as many hidden units as that has visible ones."""
    with torch.no_grad():
        for own, other in zip(above.parameters(), (machine.weight.T, machine.hidden_bias, machine.visible_bias), strict=True):
            own.copy_(other)


def descend(machine: BoltzmannMachine, gradients: Sequence[Tensor], rate: float) -> None:
    """A step of gradient descent."""
    with torch.no_grad():
        for parameter, gradient in zip(machine.parameters(), gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)


def _log_bernoulli(states: Tensor, chances: Tensor) -> Tensor:
    """The log-probability of binary states (..., units) under probabilities, one for each pair: (n, m)."""
    if states.dim() == 2:
        states, chances = states.unsqueeze(0), chances.unsqueeze(1)
    return torch.xlogy(states, chances).sum(-1) + torch.xlogy(1 - states, 1 - chances).sum(-1)
