"""Restricted Boltzmann machines, and layers of a belief net whose weights upward and downward may differ."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BEGINNING = 0.01
"""The initial standard deviation of weights (Hinton, A Practical Guide to Training Restricted Boltzmann Machines, 2010, section 8)."""


class Statistics(NamedTuple):
    """The gradient of a batch for the parameters of a machine, sums over its samples, and the squared error of each reconstruction (n,)."""

    weight: Tensor
    visible_bias: Tensor
    hidden_bias: Tensor
    error: Tensor


class BoltzmannMachine(nn.Module):
    """Binary visible and hidden units with weights (visible, hidden) between them; the last `labels` visible units are one softmax group.

    The energy of states v and h is -v W h - a v - b h, with a and b the biases (Smolensky, 1986; Hinton, 2002).
    """

    def __init__(self, visible: int, hidden: int, labels: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(_BEGINNING * torch.randn(visible, hidden))
        self.visible_bias = nn.Parameter(torch.zeros(visible))
        self.hidden_bias = nn.Parameter(torch.zeros(hidden))
        self.labels = labels

    def hidden(self, visible: Tensor) -> Tensor:
        """The probabilities of hidden units (n, hidden), given visible states or probabilities (n, visible)."""
        return torch.sigmoid(visible @ self.weight + self.hidden_bias)

    def visible(self, hidden: Tensor) -> Tensor:
        """The probabilities of visible units (n, visible), given hidden states (n, hidden)."""
        inputs = hidden @ self.weight.T + self.visible_bias
        if not self.labels:
            return torch.sigmoid(inputs)
        return torch.cat([torch.sigmoid(inputs[:, : -self.labels]), inputs[:, -self.labels :].softmax(dim=1)], dim=1)

    def free_energy(self, visible: Tensor) -> Tensor:
        """-log of the sum over hidden states of exp(-energy), for visible states (n, visible): (n,)."""
        return -(visible @ self.visible_bias) - F.softplus(visible @ self.weight + self.hidden_bias).sum(dim=1)


class TwoWayLayer(nn.Module):
    """A layer of a belief net: its machine's weights go downward, and upward the same plus `difference` (visible, hidden).

    The difference is zero while the layer is trained as a machine, which ties both directions, and is trained by `up_down`. In steps that
    are linear in gradients, as SGD's are, this is the same as two separate weights.
    """

    def __init__(self, visible: int, hidden: int) -> None:
        super().__init__()
        self.machine = BoltzmannMachine(visible, hidden)
        self.difference = nn.Parameter(torch.zeros(visible, hidden))

    def upward(self, visible: Tensor) -> Tensor:
        """The probabilities of the units above (n, hidden), by the recognition weights."""
        return torch.sigmoid(visible @ (self.machine.weight + self.difference) + self.machine.hidden_bias)

    def downward(self, hidden: Tensor) -> Tensor:
        """The probabilities of the units below (n, visible), by the generative weights."""
        return self.machine.visible(hidden)


def contrastive_divergence(machine: BoltzmannMachine, visible: Tensor, noise: Tensor, known: Tensor | None = None) -> Statistics:
    """One step of contrastive divergence (Hinton, Neural Computation 14, 2002) on `visible` (n, visible), states or probabilities.

    Hidden states are drawn, by `noise` (n, hidden) from 0 to 1, so that they carry no more than bits; what is reconstructed, and the
    hidden units of that, are probabilities. Units whose `known` (n, visible) is 0 have no part in a sample's statistics.
    """
    with torch.no_grad():
        hidden = machine.hidden(visible)
        again = machine.visible((hidden > noise).to(visible.dtype))
        if known is not None:
            again = again * known
        return statistics(visible, hidden, again, machine.hidden(again))


def statistics(visible: Tensor, hidden: Tensor, other_visible: Tensor, other_hidden: Tensor) -> Statistics:
    """The gradient by which the first pair of states becomes likelier than the other."""
    return Statistics(
        other_visible.T @ other_hidden - visible.T @ hidden,
        (other_visible - visible).sum(dim=0),
        (other_hidden - hidden).sum(dim=0),
        (other_visible - visible).square().sum(dim=1),
    )
