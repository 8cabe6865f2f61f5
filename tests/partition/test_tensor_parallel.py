"""Laws of tensor parallelism along one axis: it computes what one process computes, and sends what its formula says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import placement_of
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.vocabulary import Vocabulary, vocabulary_cross_entropy

from .ranks import close, on_ranks

STEPS, BATCH, WIDTH, HIDDEN = 20, 6, 10, 14


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.down(F.gelu(self.up(x)))
        return y


def trained(model: nn.Module) -> tuple[list[Tensor], Tensor]:
    """The outputs, and the gradient of the input in the last step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    outputs = []
    for step in range(STEPS):
        x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step)).requires_grad_()
        optimizer.zero_grad()
        y = model(x)
        y.square().mean().backward()
        optimizer.step()
        outputs.append(y.detach())
    assert x.grad is not None
    return outputs, x.grad


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "styles", [(Columns(), Rows()), (Columns(gathered=True), Rows(whole_input=True)), (Columns(gathered=True, groups=2, unit=7), Rows())]
)
def test_layers_in_columns_and_rows_train_as_one_process(ranks: int, styles: tuple[Columns, Rows]) -> None:
    columns, rows = styles
    if columns.gathered and not rows.whole_input:
        rows = Rows(whole_input=True, unit=7)
    outputs, gradient = trained(whole := Pair())

    def program(place: Place, rank: int) -> Any:
        model = Pair()
        assert not columns.refusal(model.up, place)
        assert not rows.refusal(model.down, place)
        model.up, model.down = columns.local(model.up, "up", place), rows.local(model.down, "down", place)  # type: ignore[assignment]
        return (*trained(model), list(model.named_parameters()), place.axis("tp"))

    final = dict(whole.named_parameters())
    pieces = {name: torch.full_like(value, torch.nan) for name, value in final.items()}
    for found, own, parameters, axis in on_ranks(program, tp=ranks):
        for mine, theirs in zip(found, outputs, strict=True):
            close(mine, theirs)
        close(own, gradient)
        for name, value in parameters:
            placement_of(value).piece.put(value.detach(), pieces[name])
        if ranks > 1 and columns == Columns():
            assert axis.calls == {"all_reduce": 2 * STEPS}, "one forward, one backward"
            assert axis.nbytes["all_reduce"] == pytest.approx(2 * STEPS * 2 * (ranks - 1) / ranks * BATCH * WIDTH * 4, abs=STEPS)
    for name, value in final.items():
        close(pieces[name], value.detach())


SYMBOLS = 13


def language(place: Place | None, tied: bool, smoothing: float) -> tuple[list[Tensor], dict[str, Tensor]]:
    torch.manual_seed(2)
    embedding, score = nn.Embedding(SYMBOLS, WIDTH, padding_idx=5), nn.Linear(WIDTH, SYMBOLS, bias=not tied)
    if tied:
        score.weight = embedding.weight
    model: Any = nn.ModuleDict({"embedding": embedding, "score": score})
    sizes = (SYMBOLS,)
    if place is not None:
        axis, columns = place.axis("tp"), Columns()
        sizes = columns.sizes(score, axis.size)
        model = nn.ModuleDict(
            {"embedding": Vocabulary().local(embedding, "embedding", place), "score": columns.local(score, "score", place)}
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for step in range(STEPS):
        drawn = torch.Generator().manual_seed(step)
        symbols, targets = (torch.randint(SYMBOLS, (3, 4), generator=drawn) for _ in range(2))
        targets[0, step % 4] = -100
        optimizer.zero_grad()
        scores = model["score"](torch.tanh(model["embedding"](symbols)))
        if place is None:
            loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
        else:
            loss = vocabulary_cross_entropy(scores, targets, place.axis("tp"), sizes, label_smoothing=smoothing)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, dict(model.named_parameters())


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_divided_vocabulary_trains_as_a_whole_one(ranks: int, tied: bool, smoothing: float) -> None:
    """Of 16 ranks, three have no symbol."""
    losses, weights = language(None, tied, smoothing)
    pieces = {name: torch.full_like(value, torch.nan) for name, value in weights.items()}
    for found, own in on_ranks(lambda place, rank: language(place, tied, smoothing), tp=ranks):
        close(torch.stack(found), torch.stack(losses))
        assert own.keys() == weights.keys()
        for name, value in own.items():
            placement_of(value).piece.put(value.detach(), pieces[name])
    for name, value in weights.items():
        close(pieces[name], value.detach())
