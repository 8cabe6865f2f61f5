"""A layer of experts of which each token is given to a few (Shazeer et al., 2017; Lepikhin et al., 2021; Fedus et al., 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.dealt import deal
from polyrhythm.partition.experts.routing import Routing, routed
from polyrhythm.partition.moves import replicate, total

_WHOLE = AxisOfOne("whole")


class Layer(Protocol):
    """The weights of a layer, of all experts or of some, and its settings."""

    gate: nn.Parameter
    up: nn.Parameter
    up_bias: nn.Parameter
    down: nn.Parameter
    down_bias: nn.Parameter
    choices: int
    capacity_factor: float | None
    balance: float
    z: float


class MixtureOfExperts(nn.Module):
    """Tokens (…, width) to tokens of the same shape, and the auxiliary loss to add to that of the model.

    Each token goes to the `choices` experts that its gate gives most, and gets the sum of their answers, weighted: by the probability for
    one choice, by its share of the chosen ones for more. An expert is an MLP with GELU. It has room for `capacity_factor` times its equal
    share of all choices, or for all with None; a choice that finds no room adds nothing. The auxiliary loss is `balance` times that of
    Fedus et al., section 2.2, plus `z` times the mean square of the scores' log-sum-exp (Zoph et al., 2022).

    Raises CompositionError for more choices than experts.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        experts: int,
        *,
        choices: int = 2,
        capacity_factor: float | None = 1.25,
        balance: float = 0.01,
        z: float = 0.0,
    ) -> None:
        super().__init__()
        if not 1 <= choices <= experts:
            raise CompositionError(f"choices={choices} of {experts} experts cannot be made: give a number from 1 to {experts}.")
        self.choices, self.capacity_factor, self.balance, self.z = choices, capacity_factor, balance, z
        self.gate = nn.Parameter(torch.empty(experts, width))
        self.up, self.up_bias = nn.Parameter(torch.empty(experts, width, hidden)), nn.Parameter(torch.zeros(experts, hidden))
        self.down, self.down_bias = nn.Parameter(torch.empty(experts, hidden, width)), nn.Parameter(torch.zeros(experts, width))
        nn.init.normal_(self.gate, std=width**-0.5)
        nn.init.normal_(self.up, std=width**-0.5)
        nn.init.normal_(self.down, std=hidden**-0.5)

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        return answers(self, value, _WHOLE, (), (len(self.up),))


def answers(layer: Layer, value: Tensor, axis: Axis, over: Sequence[Axis], sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """What the layer does where each rank of the axis has its own tokens, and the weights of `sizes[index]` of the experts."""
    tokens = value.reshape(-1, value.shape[-1])
    scores = F.linear(tokens, replicate(layer.gate, axis)).float() if _narrow(value) else F.linear(tokens, replicate(layer.gate, axis))
    chances = scores.softmax(-1)
    weights, chosen = chances.topk(layer.choices)
    if layer.choices > 1:
        weights = weights / weights.sum(-1, keepdim=True)
    routing = routed(chosen, sum(sizes), layer.capacity_factor, axis, over)
    token = routing.routes % max(len(tokens), 1)
    found = _dispatched(layer, tokens[token], routing, axis, sizes)
    weighted = found * weights.T.flatten()[routing.routes].unsqueeze(1).to(found.dtype)
    output = torch.zeros_like(tokens).index_add(0, token, weighted)
    return output.view(value.shape), _auxiliary(layer, scores, chances, routing, axis)


def _narrow(value: Tensor) -> bool:
    return value.dtype in (torch.bfloat16, torch.float16)


def _dispatched(layer: Layer, rows: Tensor, routing: Routing, axis: Axis, sizes: tuple[int, ...]) -> Tensor:
    """The experts' answers to rows that are in the order of the experts, whoever has them."""
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    spans = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    sent = [sum(routing.kept[axis.index][span]) for span in spans]
    here = [kept[spans[axis.index]] for kept in routing.kept]
    got = [sum(kept) for kept in here]
    answered = _answered(layer, deal(rows, axis, sent, got), here)
    return deal(answered, axis, got, sent)


def _answered(layer: Layer, rows: Tensor, here: list[list[int]]) -> Tensor:
    """The answers of this rank's experts to rows that are in the order of ranks, and of experts for each: so many as `here`."""
    experts = len(layer.up)
    parts = torch.split(rows, [count for counts in here for count in counts])
    found: list[Tensor] = [rows] * len(parts)
    for expert in range(experts):
        own = torch.cat(parts[expert::experts])
        inner = F.gelu(own @ layer.up[expert] + layer.up_bias[expert])
        outer = inner @ layer.down[expert] + layer.down_bias[expert]
        found[expert::experts] = torch.split(outer, [counts[expert] for counts in here])
    return torch.cat(found) if found else rows


def _auxiliary(layer: Layer, scores: Tensor, chances: Tensor, routing: Routing, axis: Axis) -> Tensor:
    """The loss over the tokens of all ranks of the axis, equal at all of them: their chances are added up, not their losses."""
    squares = scores.logsumexp(-1).square().sum().view(1)
    sums = total(torch.cat([chances.sum(0), squares]), axis) / max(routing.tokens, 1)
    return layer.balance * len(layer.gate) * (routing.fractions.to(sums.dtype) * sums[:-1]).sum() + layer.z * sums[-1]
