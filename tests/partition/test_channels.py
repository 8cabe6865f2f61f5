"""Laws of convolutions that are divided by channels and filters: they are those of one process, and send what the formulas say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.convolution import (
    ChannelNorm,
    Channels,
    Image,
    SpatialConv,
    StationaryW,
    StationaryX,
    StationaryY,
    WholeChannels,
    stationary,
)
from polyrhythm.partition.place import Place

from .ranks import close, on_ranks
from .styled import counted, divide, put_together, trained

STEPS, SAMPLES, CHANNELS, FILTERS, SIZE = 20, 2, 6, 5, 7


class Stack(nn.Module):
    """Three convolutions with batch norms; with strides and odd numbers of filters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first, self.norm = nn.Conv2d(CHANNELS, FILTERS, 3, 2, 1), nn.BatchNorm2d(FILTERS)
        self.second = nn.Conv2d(FILTERS, 8, 3, padding=2, dilation=2, padding_mode="circular", bias=False)
        self.third = nn.Conv2d(8, 7, 1)
        self.flat, self.last = nn.Flatten(), nn.Linear(7 * 16, 3)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        x = self.third(F.relu(self.second(F.gelu(self.norm(self.first(x))))))
        found: Tensor = self.last(self.flat(x))
        return found


def grid(first: str, second: str) -> dict[str, Any]:
    return {
        "first": StationaryW(first, second),
        "norm": ChannelNorm(second, first),
        "second": StationaryW(second, first),
        "third": StationaryW(first, second),
        "flat": WholeChannels(Channels(7, second, first)),
    }


def line(*styles: Any) -> dict[str, Any]:
    return dict(zip(("first", "second", "third"), styles, strict=True)) | {
        "norm": ChannelNorm("c"),
        "flat": WholeChannels(Channels(7, "c", None)),
    }


X, Y = StationaryX("c"), StationaryY("c")
CUTS = {"x": line(X, X, X), "y": line(Y, Y, Y), "mixed": line(X, Y, X), "w": grid("c", "f")}


def loss_of(model: nn.Module, step: int, place: Place | None = None, entrance: Channels | None = None) -> Tensor:
    value = torch.randn(SAMPLES, CHANNELS, SIZE, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return F.cross_entropy(model(value if place is None or entrance is None else entrance.part(value, place)), torch.arange(SAMPLES))


@pytest.mark.parametrize(
    ("cut", "mesh", "steps"),
    [
        *((cut, {"c": ranks}, steps) for cut in ("x", "y", "mixed") for ranks, steps in ((1, STEPS), (2, STEPS), (4, 8), (8, 2))),
        *(("w", mesh, 10) for mesh in ({"c": 1, "f": 1}, {"c": 2, "f": 1}, {"c": 1, "f": 3}, {"c": 2, "f": 2})),
        ("w", {"c": 4, "f": 2}, 2),
    ],
    ids=str,
)
def test_a_network_trains_on_parts_of_its_channels_as_on_all(cut: str, mesh: dict[str, int], steps: int) -> None:
    """Of 8 ranks, some have no filter."""
    losses = trained(whole := Stack(), loss_of, steps)
    entrance = Channels(CHANNELS, "c", "f" if cut == "w" else None)

    def program(place: Place, rank: int) -> Any:
        model = divide(Stack(), CUTS[cut], place)
        found = trained(model, lambda model, step: loss_of(model, step, place, entrance), steps)
        model.eval()
        with torch.no_grad():
            return [*found, loss_of(model, 99, place, entrance)], dict(model.named_parameters())

    whole.eval()
    losses.append(loss_of(whole, 99).detach())
    results = on_ranks(program, **mesh)
    for found, _ in results:
        close(torch.stack(found), torch.stack(losses))
    put_together([parameters for _, parameters in results], dict(whole.named_parameters()))


@pytest.mark.parametrize(("channels", "filters", "stride"), [(8, 16, 1), (16, 8, 1), (8, 16, 4)])
def test_a_rank_sends_the_smaller_of_its_outputs_and_its_inputs(channels: int, filters: int, stride: int) -> None:
    """Of x forward N F H'W' (p-1)/p elements, of y N C HW (p-1)/p; the same backward; and half of the ranks' weights nowhere."""
    ranks, layer = 4, nn.Conv2d(channels, filters, 3, stride, 1, bias=False).to("meta")
    size = layer(torch.zeros(1, channels, 8, 8, device="meta")).shape[2]
    expected = {
        StationaryX: SAMPLES * filters * size * size * 4 * (ranks - 1) // ranks,
        StationaryY: SAMPLES * channels * 64 * 4 * (ranks - 1) // ranks,
    }
    sent = {}
    for member in (StationaryX, StationaryY):
        place = counted({"c": ranks}, {"c": 1})
        local = member("c").local(layer, "", place)
        assert local.weight.numel() == layer.weight.numel() // ranks
        local(torch.zeros(SAMPLES, channels // ranks, 8, 8, device="meta", requires_grad=True)).sum().backward()
        sent[member] = sum(place.axis("c").nbytes.values())
        assert sent[member] == 2 * expected[member]
        assert place.axis("c").calls == {"all_gather": 1, "reduce_scatter": 1}
    assert sent[type(stationary("c", layer, 64, size * size))] == min(sent.values())


def test_a_grid_divides_weights_by_its_ranks_and_activations_too() -> None:
    place = counted({"c": 2, "f": 4}, {"c": 1, "f": 2})
    layer = nn.Conv2d(8, 16, 3, padding=1).to("meta")
    local: Any = StationaryW("c", "f").local(layer, "", place)
    assert tuple(local.weight.shape) == (16 // 4, 8 // 2, 3, 3)
    assert local(torch.zeros(SAMPLES, 1, 8, 8, device="meta")).shape == (SAMPLES, 2, 8, 8)
    assert place.axis("f").nbytes == {"all_gather": SAMPLES * 1 * 64 * 4 * 3}
    assert place.axis("c").nbytes == {"reduce_scatter": SAMPLES * 2 * 64 * 4}


def test_what_cannot_be_divided_by_channels_is_refused() -> None:
    place = counted({"c": 2, "f": 2}, {"c": 0, "f": 0})
    for style in (X, Y, StationaryW("c", "f")):
        assert "nn.Conv2d" in style.refusal(nn.Linear(2, 2), place)
        assert "groups=2" in style.refusal(nn.Conv2d(4, 4, 3, groups=2), place)
        assert not style.refusal(nn.Conv2d(4, 4, 3), place)
    with pytest.raises(ValueError, match="has 2 channels"):
        X.local(nn.Conv2d(4, 4, 3), "", place)(torch.zeros(1, 4, 5, 5))
    assert "two axes" in StationaryW("c", "c").refusal(nn.Conv2d(4, 4, 3), place)
    assert "batch norms" in ChannelNorm("c").refusal(nn.GroupNorm(1, 4), place)


def test_one_convolution_is_not_divided_by_place_and_by_channels() -> None:
    place = counted({"c": 2, "h": 2, "w": 1}, {"c": 0, "h": 0, "w": 0})
    by_place = SpatialConv(Image(8, 8)).local(nn.Conv2d(4, 4, 3), "", place)
    by_channels = X.local(nn.Conv2d(4, 4, 3), "", place)
    assert "not by both" in X.refusal(by_place, place)
    assert "nn.Conv2d" in SpatialConv(Image(8, 8)).refusal(by_channels, place)
