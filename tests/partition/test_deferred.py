"""Laws of models that are built without memory: each piece is that of the whole, and all initialisations of torch are done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from polyrhythm.partition.deferred import build
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.random_numbers import Stream


class Every(nn.Module):
    def __init__(self, initialise: Callable[[Tensor], object] | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(40, 40))
        if initialise is not None:
            initialise(self.weight)


INITIALISATIONS: dict[str, Callable[[Tensor], object]] = {
    "uniform": lambda w: nn.init.uniform_(w, -3, 1),
    "normal": lambda w: nn.init.normal_(w, 2, 0.1),
    "truncated": lambda w: nn.init.trunc_normal_(w, 0.5, 0.3, 0.0, 0.8),
    "xavier": nn.init.xavier_normal_,
    "kaiming": lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"),
    "orthogonal": lambda w: nn.init.orthogonal_(w, 2.0),
    "sparse": lambda w: nn.init.sparse_(w, 0.25),
    "eye": nn.init.eye_,
    "data": lambda w: w.data.normal_(0, 0.02),
    "times": lambda w: w.data.copy_(torch.randn(40, 40) * 0.02 + 1),
    "rows": lambda w: (nn.init.ones_(w), w.data[3].zero_(), w.data[5:7].fill_(4)),
    "triangle": lambda w: w.data.copy_(torch.tril(torch.ones(40, 40))),
    "waves": lambda w: w.data.copy_(torch.outer(torch.arange(40.0), 1 / (1 + torch.arange(40.0))).sin()),
}


def piece(rows: tuple[int, int], columns: tuple[int, int]) -> Piece:
    return Piece.all_of((40, 40)).on(0, rows).on(1, columns)


@pytest.mark.parametrize("name", INITIALISATIONS)
def test_pieces_are_those_of_the_whole_and_like_what_torch_makes(name: str) -> None:
    model, recording = build(lambda: Every(INITIALISATIONS[name]))
    whole = recording.initial(model.weight, "weight", 3, Piece.all_of((40, 40)))
    for part in (piece((0, 7), (0, 40)), piece((7, 40), (39, 40)), piece((3, 3), (1, 2))):
        assert torch.equal(recording.initial(model.weight, "weight", 3, part), part.take(whole))
    torch.manual_seed(0)
    theirs = Every(INITIALISATIONS[name]).weight.detach()
    for found, expected in ((whole.mean(), theirs.mean()), (whole.std(), theirs.std()), (whole.min(), theirs.min())):
        assert float(found) == pytest.approx(float(expected), abs=0.2 * float(theirs.abs().max()) + 1e-6)
    if name == "orthogonal":
        torch.testing.assert_close(whole @ whole.T, 4 * torch.eye(40), atol=1e-4, rtol=1e-4)
    if name in ("eye", "rows", "triangle", "waves"):
        torch.testing.assert_close(whole, theirs)


def test_layers_of_torch_begin_as_they_say() -> None:
    def make() -> nn.Module:
        return nn.ModuleList(
            [nn.BatchNorm1d(4), nn.MultiheadAttention(8, 2), nn.Embedding(6, 3, padding_idx=2), nn.LSTM(3, 5), nn.Conv2d(2, 4, 3)]
        )

    model, recording = build(make)
    made = make()
    theirs = {name: tensor.detach() for name, tensor in (*made.named_parameters(), *made.named_buffers())}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        value = recording.initial(tensor, name, 1, Piece.all_of(tensor.shape))
        assert value.dtype == theirs[name].dtype
        assert (value.float().std() if value.numel() > 1 else torch.zeros(())) == pytest.approx(
            float(theirs[name].float().std() if value.numel() > 1 else 0.0), rel=0.5, abs=1e-6
        )
    embedding = recording.initial(model.get_parameter("2.weight"), "2.weight", 1, Piece.all_of((6, 3)))
    assert not embedding[2].any()


def test_a_number_belongs_to_its_place() -> None:
    for whole in ((40, 300), (5, 7, 11), (300,), ()):
        stream = Stream(1, "x", 4)
        drawn = stream.uniform(Piece.all_of(whole))
        for dim, length in enumerate(whole):
            part = Piece.all_of(whole).on(dim, (1, length // 2), (length - 1, length))
            assert torch.equal(stream.uniform(part), part.take(drawn))
    assert not torch.equal(Stream(1, "x").uniform(Piece.all_of((9,))), Stream(2, "x").uniform(Piece.all_of((9,))))
    normal = Stream(0, "n").normal(Piece.all_of((100_000,)))
    assert float(normal.mean()) == pytest.approx(0, abs=0.01)
    assert float(normal.std()) == pytest.approx(1, abs=0.01)
