"""The up-down algorithm: wake and sleep, with contrastive divergence at the top (Hinton, Osindero, Teh, 2006, section 5, appendix B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.workloads.belief_net.machine import BoltzmannMachine, Statistics, TwoWayLayer, statistics

Draw = Callable[[Tensor], Tensor]
"""Draws states by probabilities (n, units)."""


@dataclass(frozen=True, slots=True)
class LayerGradient:
    """The gradients of a two-way layer, sums over samples: of its machine's weights, of both biases, and of the difference upward."""

    weight: Tensor
    visible_bias: Tensor
    hidden_bias: Tensor
    difference: Tensor


@dataclass(frozen=True, slots=True)
class UpDown:
    """A belief net of `layers` below an undirected machine `top`, whose Gibbs chain takes `gibbs_steps` between wake and sleep."""

    layers: Sequence[TwoWayLayer]
    top: BoltzmannMachine
    gibbs_steps: int

    def gradients(
        self, images: Tensor, with_labels: Callable[[Tensor], tuple[Tensor, Tensor | None]], draw: Draw
    ) -> tuple[list[LayerGradient], Statistics]:
        """The gradients of a batch (n, pixels): the generative weights learn to give what was seen, the others what was dreamed."""
        with torch.no_grad():
            awake = [images]
            for layer in self.layers:
                awake.append(draw(layer.upward(awake[-1])))
            visible, known = with_labels(awake[-1])
            found, last = self._chain(visible, known, draw)
            dreamed = [last[:, : awake[-1].shape[1]]]
            for place, layer in enumerate(reversed(self.layers)):
                below = layer.downward(dreamed[0])
                dreamed.insert(0, below if place + 1 == len(self.layers) else draw(below))
            return [_gradient(layer, awake[k : k + 2], dreamed[k : k + 2]) for k, layer in enumerate(self.layers)], found

    def _chain(self, visible: Tensor, known: Tensor | None, draw: Draw) -> tuple[Statistics, Tensor]:
        """The statistics of the machine at the top, and the visible states with which its chain ends."""
        first = again = self.top.hidden(visible)
        states, labels = visible, self.top.labels
        for _ in range(self.gibbs_steps):
            back = self.top.visible(draw(again))
            states = torch.cat([draw(back[:, : back.shape[1] - labels]), back[:, back.shape[1] - labels :]], dim=1)
            if known is not None:
                states = states * known
            again = self.top.hidden(states)
        return statistics(visible, first, states, again), states


def _gradient(layer: TwoWayLayer, awake: Sequence[Tensor], dreamed: Sequence[Tensor]) -> LayerGradient:
    """The gradients of a layer from the states below and above it, in both phases."""
    down, up = layer.downward(awake[1]) - awake[0], layer.upward(dreamed[0]) - dreamed[1]
    generative, recognition = down.T @ awake[1], dreamed[0].T @ up
    return LayerGradient(generative, down.sum(dim=0), up.sum(dim=0), recognition - generative)
