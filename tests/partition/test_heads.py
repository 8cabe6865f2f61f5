"""Laws of a GPT whose attention is divided by heads, its other layers by columns and rows, and its vocabulary among ranks."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.axis import near_equal
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import placement_of
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace
from polyrhythm.partition.tensor_parallel.heads import Heads
from polyrhythm.partition.tensor_parallel.vocabulary import Vocabulary, vocabulary_cross_entropy
from polyrhythm.workloads.gpt import Gpt, GptSize

from .ranks import close, on_ranks

SYMBOLS, LAYERS, STEPS, BATCH, TIME, WIDTH = 13, 2, 20, 4, 6, 16


def megatron(weights: tuple[float, ...] | None = None) -> dict[str, Any]:
    return {
        "symbols": Vocabulary(),
        "blocks.?": Heads(4, weights=weights, others={"widen": Columns(weights=weights), "narrow": Rows(weights=weights)}),
        "score": Columns(),
    }


def cut(model: nn.Module, styles: dict[str, Any], place: Place) -> nn.Module:
    """The model with the modules of these names divided by their styles."""
    for pattern, style in styles.items():
        for name in [name for name, _ in model.named_modules() if fnmatchcase(name, pattern)]:
            module = model.get_submodule(name)
            assert style.refusal(module, place) == ""
            model.set_submodule(name, style.local(module, name, place))
    return model


def text(step: int) -> Tensor:
    return torch.randint(SYMBOLS, (BATCH, TIME + 1), generator=torch.Generator().manual_seed(step))


def trained(place: Place | None, styles: dict[str, Any], steps: int = STEPS) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(3)
    model: nn.Module = Gpt(GptSize(SYMBOLS, 8, LAYERS, WIDTH, 4))
    if place is not None:
        model = cut(model, styles, place)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for step in range(steps):
        symbols, targets = text(step)[:, :-1], text(step)[:, 1:]
        optimizer.zero_grad()
        scores = model(symbols)
        if place is None:
            loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        else:
            axis = place.axis("tp")
            loss = vocabulary_cross_entropy(scores, targets, axis, near_equal(SYMBOLS, axis.size))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), dict(model.named_parameters())


@pytest.mark.parametrize(("ranks", "weights"), [(1, None), (2, None), (3, None), (4, None), (3, (2, 0, 2))])
def test_a_gpt_divided_by_heads_trains_as_one_process(ranks: int, weights: tuple[float, ...] | None) -> None:
    """Three ranks have unequal shares of the four heads, one of them no head."""
    losses, whole = trained(None, {})
    pieces = {name: torch.full_like(value, torch.nan) for name, value in whole.items()}
    for found, own in on_ranks(lambda place, rank: trained(place, megatron(weights)), tp=ranks):
        close(found, losses)
        assert own.keys() == whole.keys()
        for name, value in own.items():
            placement_of(value).piece.put(value.detach(), pieces[name])
    for name, value in whole.items():
        close(pieces[name], value.detach())


def test_each_half_of_a_block_adds_once_forward_and_once_backward() -> None:
    def program(place: Place, rank: int) -> Any:
        trained(place, megatron(), 1)
        return place.axis("tp").calls, place.axis("tp").nbytes

    for rank, (calls, nbytes) in enumerate(on_ranks(program, tp=4)):
        # symbols forward, scores backward, and the sums of the loss
        assert calls == {"all_reduce": 2 * 2 * LAYERS + 3, "maximum": 1}
        activation, places = BATCH * TIME * WIDTH, BATCH * TIME
        assert nbytes == {"all_reduce": 6 * ((4 * LAYERS + 2) * activation + 3 * places), "maximum": 6 * places}
        counted = CountedAxis("tp", 4, rank)
        place = Place({"tp": counted}, initial=lambda whole, name, piece: torch.empty(piece.shape, device="meta"))
        with torch.device("meta"):
            model = cut(Gpt(GptSize(SYMBOLS, 8, LAYERS, WIDTH, 4)), megatron(), place)
            symbols = torch.zeros(BATCH, TIME, dtype=torch.int64)
            vocabulary_cross_entropy(model(symbols), symbols, counted, near_equal(SYMBOLS, 4)).backward()
        assert (counted.calls, counted.nbytes) == (calls, nbytes)


class Separate(nn.Module):
    """Attention whose queries, keys and values are from layers of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.query, self.key, self.value = (nn.Linear(WIDTH, 12) for _ in range(3))
        self.drop = nn.Dropout(0.1)
        self.join = nn.Linear(12, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (layer(x).unflatten(-1, (-1, 4)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        y: Tensor = self.join(self.drop(attended))
        return y


def test_separate_projections_and_their_dropout_are_divided_by_heads() -> None:
    x = torch.randn(BATCH, TIME, WIDTH, generator=torch.Generator().manual_seed(0))
    one = cut(Separate(), {"drop": DropByPlace()}, Place({}))
    outputs = [one(x) for _ in range(2)]
    assert not torch.equal(*outputs)

    def program(place: Place, rank: int) -> list[Tensor]:
        heads = Heads(3, projections=("query", "key", "value"), join="join")
        model = cut(Separate(), {"drop": DropByPlace({-1: ("tp",)}, {-1: (8, 4)})}, place)
        assert heads.refusal(model, place) == ""
        model = heads.local(model, "", place)
        return [model(x).detach() for _ in range(2)]

    for found in on_ranks(program, tp=2):
        for mine, theirs in zip(found, outputs, strict=True):
            close(mine, theirs.detach())
