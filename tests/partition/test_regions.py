"""What a divided region refuses, and how it goes with other axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.cube import Cube
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace
from polyrhythm.partition.tensor_parallel.heads import Heads
from polyrhythm.partition.tensor_parallel.marks import marked
from polyrhythm.partition.tensor_parallel.summa import Summa
from polyrhythm.partition.tensor_parallel.tesseract import Tesseract

from .grids import Residual
from .ranks import close, on_ranks
from .styled import divide

ALONE = Place({"row": AxisOfOne("row"), "column": AxisOfOne("column")})
COUNTED = Place({"row": CountedAxis("row", 2, 0), "column": CountedAxis("column", 2, 0)})


def tied() -> nn.Module:
    model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
    model[1].weight = model[0].weight
    return model


@pytest.mark.parametrize(
    ("module", "settings", "says"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), {}, "1, which is BatchNorm1d, is no layer"),
        (nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), {}, "1, which is Softmax, is no layer"),
        (nn.LSTM(4, 4), {}, "The module, which is LSTM, is no layer"),
        (nn.LayerNorm((3, 4)), {}, "normalises several dimensions"),
        (nn.Embedding(4, 4, max_norm=1.0), {}, "leave these options out"),
        (nn.Sequential(nn.Linear(4, 4)), {"groups": {"0": 3}}, "0, which is Linear, has 4 outputs, which are not 3 equal groups"),
        (tied(), {}, "1.weight is tied to 0.weight, and the two would be divided differently: untie them"),
    ],
)
def test_a_region_with_what_cannot_be_divided_is_refused(module: nn.Module, settings: dict[str, Any], says: str) -> None:
    for style in (Summa(**settings), Tesseract(**settings), Cube(**settings)):
        assert says in style.refusal(module, ALONE)
    assert "The axes tp, tp are not different ones" in Summa("tp", "tp").refusal(Residual(), ALONE)


def test_a_model_in_evaluation_stays_so() -> None:
    x = torch.ones(4, 6)
    assert torch.equal(*(Summa().local(Hybrid().eval(), "", ALONE)(x) for _ in range(2)))
    assert torch.equal(DropByPlace().local(nn.Dropout().eval(), "", ALONE)(x), x)


class Reversed(nn.Module):
    """Layers that are registered in another order than they are applied in."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.first = nn.Linear(6, 4), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x))
        return y


@pytest.mark.parametrize(
    ("make", "given", "says"),
    [
        (Reversed, torch.zeros(4, 4), "register layers in the order in which they are applied"),
        (lambda: nn.Sequential(nn.ReLU()), torch.zeros(4, 4), "No layer before the region's end says how many features there are"),
        (lambda: nn.Sequential(nn.Dropout(), nn.Linear(4, 4)), torch.zeros(4, 4), "No layer before 0 says how many features there are"),
        (lambda: nn.Sequential(nn.Linear(4, 4)), torch.zeros(4, 5), "was given an activation of \\(2, 3\\) samples and features"),
    ],
)
def test_a_region_that_is_not_what_it_was_taken_for_raises(make: Callable[[], nn.Module], given: Tensor, says: str) -> None:
    with pytest.raises(CompositionError, match=says):
        Summa().local(make(), "", COUNTED)(given)


def test_tensors_of_other_first_dimensions_and_other_results_are_refused() -> None:
    class Masked(Residual):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
            return [super().forward(x)]

    with pytest.raises(CompositionError, match=r"whose first dimensions are \[3, 5\]"):
        Summa().local(Masked(), "", ALONE)(torch.zeros(5, 2, 10), mask=torch.zeros(3, 3))
    with pytest.raises(CompositionError, match="returned list: let it return one activation"):
        Summa().local(Masked(), "", ALONE)(torch.zeros(5, 2, 10))


def test_heads_and_drop_refuse_what_they_cannot_divide() -> None:
    place = Place({"tp": CountedAxis("tp", 2, 0)})
    assert "has no 'query_key_value' that is one, but norm, up" in Heads(2).refusal(Residual(), place)
    assert "give numbers that the outputs have" in Heads(4, projections=("up",), join="down").refusal(Residual(), place)
    others = Heads(2, projections=("up",), join="down", others={"side": Columns()})
    assert "others has a style for 'side', and Plain has up, down" in others.refusal(Plain(), place)
    assert "name dropouts" in DropByPlace().refusal(nn.Linear(2, 2), place)
    assert "sizes has 3 for dimension -1, which is divided into 2" in DropByPlace({-1: ("tp",)}, {-1: (1, 1, 1)}).refusal(
        nn.Dropout(), place
    )
    with pytest.raises(CompositionError, match="has 5 elements in dimension -1, where sizes has 4"):
        DropByPlace({-1: ("tp",)}, {-1: (4, 4)}).local(nn.Dropout(), "", place)(torch.zeros(5))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 6), nn.Linear(2, 4)


class Hybrid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.up, self.drop, self.down = nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(self.drop(F.relu(self.up(x))))
        return y


HYBRIDS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "columns and rows": ({"dp": 2, "tp": 2}, {"up": Columns(), "drop": DropByPlace({0: ("dp",), -1: ("tp",)}), "down": Rows()}),
    "summa": ({"dp": 2, "row": 2, "column": 2}, {"": Summa(data=("dp",))}),
    "cube": ({"dp": 2, "x": 1, "y": 2, "z": 2}, {"": Cube(data=("dp",))}),
}


@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_a_grid_of_data_and_model_axes_trains_as_one_process(hybrid: str) -> None:
    """Yadan et al., 2014, "Multi-GPU training of ConvNets", had 2 x 2; dropout is one mask over the whole batch."""
    sizes, styles = HYBRIDS[hybrid]
    alone = Place({name: AxisOfOne(name) for name in sizes})

    def trained(place: Place) -> list[Tensor]:
        model = styles[""].local(Hybrid(), "", place) if "" in styles else divide(Hybrid(), styles, place)
        data = place.axis("dp")
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        found = []
        for step in range(5):
            x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step)).chunk(data.size)[data.index]
            optimizer.zero_grad()
            model(x).square().mean().backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad = data.all_reduce(parameter.grad) / data.size
            optimizer.step()
            found.append(model.eval()(torch.ones(4, 6)).detach())
            model.train()
        return found

    whole = trained(alone)
    for own in on_ranks(lambda place, rank: trained(place), **sizes):
        close(torch.stack(own), torch.stack(whole))


class Odd(nn.Module):
    """A residual that is added after `layers` layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + torch.relu(self.layers(x))
        return y


class Crossed(nn.Module):
    """Layers of equal sizes, registered in another order than they are applied in, and symbols that are looked up late."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self.a, self.b, self.symbols = nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(4, 4)
        self.order = order

    def forward(self, symbols: Tensor) -> Tensor:
        y: Tensor = self.a(self.b(self.symbols(symbols) if self.order == "symbols" else torch.ones(len(symbols), 4)))
        return y


def test_activations_of_different_parts_of_a_cube_do_not_meet() -> None:
    place = Place({name: CountedAxis(name, 2, 0) for name in "xyz"})
    for count in (1, 3):
        region = Cube().local(Odd(count), "", place)
        with pytest.raises(CompositionError, match="an odd number of layers meets one after an even number"):
            region(torch.zeros(8, 4))
        assert not hasattr(marked(torch.zeros(2), region) + 1, "_polyrhythm_mark"), "followed no further"  # type: ignore[arg-type]
    assert Cube().local(Odd(2), "", place)(torch.zeros(8, 4)).shape == (8, 4)
    for order in ("symbols", "numbers"):
        with pytest.raises(CompositionError, match="register layers in the order in which they are applied"):
            Cube().local(Crossed(order), "", place)(torch.zeros(8, dtype=torch.int64))


class Again(nn.Module):
    """A part whose forward pass may be done again in the backward pass."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.part, self.last, self.again = Hybrid(), nn.Linear(3, 2), again

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(checkpoint(self.part, x, use_reentrant=False) if self.again else self.part(x))
        return y


@pytest.mark.parametrize("style", [{"": Summa()}, {"part.drop": DropByPlace()}])
def test_a_pass_that_is_done_again_drops_the_same(style: dict[str, Any]) -> None:
    """Two passes are under way at once, as in a pipeline."""

    def gradients(again: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = Again(again)
        model = style[""].local(model, "", ALONE) if "" in style else divide(model, style, ALONE)
        losses = [model(torch.full((4, 6), float(step + 1))).square().mean() for step in range(2)]
        for loss in losses:
            loss.backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    for mine, theirs in zip(gradients(True), gradients(False), strict=True):
        close(mine, theirs)


class Calling(nn.Module):
    """A layer, and then an operation on its output (samples, 3, features)."""

    def __init__(self, operation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.operation, self.last = nn.Linear(4, 4), operation, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.operation(self.layer(x)))
        return y


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.softmax(-1),
        lambda x: F.softmax(x, dim=2),
        lambda x: x - x.mean(0),
        lambda x: x - x.mean(),
        lambda x: x - torch.amax(x, dim=(1, 2), keepdim=True),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: F.dropout(x, 0.1),
        lambda x: torch.relu(x).cumsum(-1),
    ],
)
def test_operations_over_samples_or_features_are_refused(operation: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CompositionError, match="over samples or features of which each rank has a part"):
        Summa().local(Calling(operation), "", COUNTED)(torch.zeros(4, 3, 4))


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.softmax(1),
        lambda x: x - x.mean(1, keepdim=True),
        lambda x: torch.max(x, x.detach()),
        lambda x: x.flatten(1).view_as(x),
        lambda x: x.transpose(1, 2).softmax(-1).transpose(1, 2),
        lambda x: F.layer_norm(x.unflatten(-1, (2, 1)), (1,)).flatten(-2),
        lambda x: x.unflatten(-1, (2, 1)).softmax(-1).flatten(-2),
    ],
)
def test_operations_within_samples_and_heads_are_not(operation: Callable[[Tensor], Tensor]) -> None:
    assert Summa().local(Calling(operation), "", COUNTED)(torch.zeros(4, 3, 4)).shape == (4, 3, 4)
