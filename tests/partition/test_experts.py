"""Laws of divided experts: tokens are answered, dropped and counted as in one process that has all experts and sees all tokens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import near_equal, starts
from polyrhythm.partition.equal_weights import EqualWeights
from polyrhythm.partition.experts import Experts, MixtureOfExperts
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence import mean_over

from .ranks import close, on_ranks
from .styled import counted, divide, put_together, trained

STEPS, TOKENS, WIDTH, HIDDEN, EXPERTS = 20, 24, 6, 5, 5
OPTIONS: dict[str, dict[str, Any]] = {
    "one choice": {"choices": 1, "capacity_factor": 1.0},
    "two choices": {"choices": 2, "capacity_factor": 1.1, "balance": 0.5, "z": 0.1},
    "tight": {"choices": 3, "capacity_factor": 0.4},
    "room for all": {"choices": 2, "capacity_factor": None},
}


class Layer(nn.Module):
    """A mixture of experts between two linear layers, with a gate that prefers some experts."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.experts = MixtureOfExperts(WIDTH, HIDDEN, EXPERTS, **OPTIONS[name])
        self.double()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.tanh(self.first(x))
        answer, auxiliary = self.experts(x)
        return self.last(x + answer), auxiliary


def batch(step: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(step)
    shared = 2 * torch.randn(WIDTH, generator=drawn, dtype=torch.float64)  # most tokens want the same experts
    return torch.randn(TOKENS, WIDTH, generator=drawn, dtype=torch.float64) + shared, torch.randint(3, (TOKENS,), generator=drawn)


def whole_loss(model: nn.Module, step: int) -> Tensor:
    tokens, labels = batch(step)
    scores, auxiliary = model(tokens)
    return F.cross_entropy(scores, labels) + auxiliary


def part_loss(model: nn.Module, step: int, place: Place) -> Tensor:
    """The loss over the tokens of the ranks of one expert axis, of which this one has a third or none."""
    axis, samples = place.axis("ep"), place.axes.get("dp", None)
    tokens, labels = batch(step)
    if samples is not None:
        tokens, labels = tokens.chunk(samples.size)[samples.index], labels.chunk(samples.size)[samples.index]
    sizes = near_equal(len(tokens), axis.size, (3, 0, 1, 2, 1, 1, 2, 3)[: axis.size])
    own = slice(starts(sizes)[axis.index], starts(sizes)[axis.index] + sizes[axis.index])
    scores, auxiliary = model(tokens[own])
    return mean_over(F.cross_entropy(scores, labels[own], reduction="none"), axis) + auxiliary


def one_by_one(layer: MixtureOfExperts, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The same layer in plain steps."""
    room = math.inf if layer.capacity_factor is None else math.ceil(layer.capacity_factor * layer.choices * len(tokens) / EXPERTS)
    chances = (tokens @ layer.gate.T).softmax(-1)
    weights, chosen = chances.topk(layer.choices)
    weights = weights if layer.choices == 1 else weights / weights.sum(-1, keepdim=True)
    taken, rows = [0] * EXPERTS, [torch.zeros(WIDTH, dtype=torch.float64)] * len(tokens)
    for choice in range(layer.choices):
        for k, token in enumerate(tokens):
            expert = int(chosen[k, choice])
            taken[expert] += 1
            if taken[expert] <= room:
                inner = F.gelu(token @ layer.up[expert] + layer.up_bias[expert])
                rows[k] = rows[k] + weights[k, choice] * (inner @ layer.down[expert] + layer.down_bias[expert])
    shares = torch.bincount(chosen[:, 0], minlength=EXPERTS) / len(tokens)
    auxiliary = layer.balance * EXPERTS * (shares * chances.mean(0)).sum()
    return torch.stack(rows), auxiliary + layer.z * (tokens @ layer.gate.T).logsumexp(-1).square().mean()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_layer_is_what_it_says(name: str) -> None:
    """Some choices find no room, and some experts get nothing."""
    layer, (tokens, _) = Layer(name).experts, batch(0)
    for found, expected in zip(layer(tokens.view(4, 6, WIDTH)), one_by_one(layer, tokens), strict=True):
        close(found.reshape(expected.shape), expected, 1e-12, 1e-12)
    chosen = (tokens @ layer.gate.T).topk(layer.choices).indices
    wanted = torch.bincount(chosen.flatten(), minlength=EXPERTS)
    if layer.capacity_factor is not None:
        assert wanted.max() > layer.capacity_factor * layer.choices * TOKENS / EXPERTS
    assert wanted.min() == 0 or layer.choices > 1


def program_of(name: str, steps: int, over: tuple[str, ...] = ()) -> Any:
    def program(place: Place, rank: int) -> Any:
        equal = EqualWeights(("ep",))
        model = divide(Layer(name), {"first": equal, "experts": Experts("ep", over), "last": equal}, place)
        if over:
            for parameter in model.parameters():
                parameter.register_hook(lambda gradient: place.axis("dp").all_reduce(gradient) / place.axis("dp").size)
        found = trained(model, lambda model, step: part_loss(model, step, place), steps)
        return found, dict(model.named_parameters())

    return program


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(("ranks", "steps"), [(1, STEPS), (2, STEPS), (4, 8), (8, 3)])
def test_divided_experts_train_as_whole_ones(name: str, ranks: int, steps: int) -> None:
    """Of 8 ranks, three have no expert, and one has no token."""
    losses = trained(whole := Layer(name), whole_loss, steps)
    results = on_ranks(program_of(name, steps), ep=ranks)
    for found, _ in results:
        close(torch.stack(found), torch.stack(losses))
    put_together([parameters for _, parameters in results], dict(whole.named_parameters()))


@pytest.mark.parametrize("mesh", [{"dp": 2, "ep": 1}, {"dp": 2, "ep": 2}, {"dp": 3, "ep": 2}], ids=str)
def test_room_and_shares_are_those_of_all_data_parallel_ranks(mesh: dict[str, int]) -> None:
    losses = trained(whole := Layer("two choices"), whole_loss, 6)
    results = on_ranks(program_of("two choices", 6, ("dp",)), **mesh)
    for k in range(mesh["ep"]):
        alike = [torch.stack(found) for found, _ in results[k :: mesh["ep"]]]
        close(torch.stack(alike).mean(0), torch.stack(losses))
    put_together([parameters for _, parameters in results], dict(whole.named_parameters()))


def test_a_rank_sends_the_tokens_whose_experts_are_elsewhere_and_no_others() -> None:
    """There and back, with their gradients; the numbers of choices; the sums of chances; the gradient of the gate."""
    ranks, choices = 4, 2
    tokens = batch(0)[0].chunk(ranks)
    layer = Layer("room for all").experts
    chosen = [(part @ layer.gate.T).topk(choices).indices.flatten().tolist() for part in tokens]
    owner = [k for k, size in enumerate(near_equal(EXPERTS, ranks)) for _ in range(size)]

    def program(place: Place, rank: int) -> Any:
        local = Experts().local(Layer("room for all").experts, "experts", place)
        output, auxiliary = local(tokens[rank].clone().requires_grad_())
        (output.sum() + auxiliary).backward()
        return place.axis("ep")

    for rank, axis in enumerate(on_ranks(program, ep=ranks)):
        away = sum(owner[expert] != rank for expert in chosen[rank])
        here = sum(owner[expert] == rank for k in range(ranks) if k != rank for expert in chosen[k])
        assert axis.nbytes["all_to_all"] == 2 * (away + here) * WIDTH * 8
        assert axis.nbytes["all_gather"] == (ranks - 1) * choices * EXPERTS * 8
        assert axis.nbytes["all_reduce"] == pytest.approx(2 * (ranks - 1) / ranks * 8 * (EXPERTS + 1 + EXPERTS * WIDTH), abs=1)
        assert axis.calls == {"all_to_all": 4, "all_gather": 1, "all_reduce": 2}


def test_without_values_each_expert_gets_the_same() -> None:
    place = counted({"ep": 4}, {"ep": 1})
    local = Experts().local(MixtureOfExperts(WIDTH, HIDDEN, 8).to("meta"), "experts", place)
    output, auxiliary = local(torch.zeros(2, 8, WIDTH, device="meta", requires_grad=True))
    (output.sum() + auxiliary).backward()
    assert place.axis("ep").nbytes["all_to_all"] == 4 * (2 * 16 * 3 // 4) * WIDTH * 4
    assert local.up.numel() == 8 // 4 * WIDTH * HIDDEN


def test_what_is_not_a_mixture_is_refused() -> None:
    place = counted({"ep": 2, "dp": 2}, {"ep": 0, "dp": 0})
    assert "MixtureOfExperts" in Experts().refusal(nn.Linear(2, 2), place)
    assert "leave it out" in Experts("ep", ("ep",)).refusal(MixtureOfExperts(4, 4, 4), place)
    assert not Experts("ep", ("dp",)).refusal(MixtureOfExperts(4, 4, 4), place)
    with pytest.raises(CompositionError, match="from 1 to 4"):
        MixtureOfExperts(4, 4, 4, choices=5)
