"""Laws of locally connected layers that are divided in space: they train as one process, and nothing but margins is sent."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.convolution.cut import spatial_cut
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.convolution.locally_connected import LocallyConnected, LocallyConnected2d
from polyrhythm.partition.place import Place

from .ranks import close, on_ranks
from .styled import counted, put_together

HEIGHT, WIDTH, STEPS = 7, 8, 20
IMAGES = {"first": (HEIGHT, WIDTH), "second": (HEIGHT, WIDTH)}
LAST = (3, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first = LocallyConnected2d(2, 3, (HEIGHT, WIDTH), 3, padding=1)
        self.second = LocallyConnected2d(3, 2, (HEIGHT, WIDTH), 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(F.relu(self.first(x)))
        return y


def trained(place: Place | None, weights: Any = (None, None)) -> tuple[Tensor, dict[str, Tensor]]:
    model: Any = Net()
    axes = ("h", "w")
    if place is not None:
        for name, size in IMAGES.items():
            style = LocallyConnected(Image(*size, axes, weights))
            assert style.refusal(getattr(model, name), place) == ""
            setattr(model, name, style.local(getattr(model, name), name, place))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(STEPS):
        x = torch.randn(3, 2, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(step))
        y = model(x if place is None else Image(HEIGHT, WIDTH, axes, weights).part(x, place))
        y = y if place is None else Image(*LAST, axes, weights).join(y, place)
        optimizer.zero_grad()
        y.square().mean().backward()
        optimizer.step()
        found.append(y.detach())
    return torch.stack(found), dict(model.named_parameters())


def test_a_layer_of_equal_weights_is_a_convolution() -> None:
    layer = LocallyConnected2d(2, 3, (HEIGHT, WIDTH), 3, stride=2, padding=1)
    kernel, bias = torch.randn(3, 2, 3, 3), torch.randn(3)
    with torch.no_grad():
        layer.weight.copy_(kernel.expand_as(layer.weight))
        layer.bias.copy_(bias.expand_as(layer.bias))
    x = torch.randn(2, 2, HEIGHT, WIDTH)
    close(layer(x), F.conv2d(x, kernel, bias, stride=2, padding=1))


@pytest.mark.parametrize(
    ("h", "w", "weights"),
    [(1, 1, (None, None)), (2, 2, (None, None)), (1, 3, (None, (1, 2, 1))), (4, 2, (None, None)), (3, 1, ((2, 0, 1), None))],
)
def test_places_that_are_divided_train_as_one_process(h: int, w: int, weights: Any) -> None:
    """With four rows of ranks one has no outputs of the last layer, and with a share of 0 no place at all."""
    outputs, whole = trained(None)
    parts = []
    for found, own in on_ranks(lambda place, rank: trained(place, weights), h=h, w=w):
        close(found, outputs)
        parts.append(own)
    put_together(parts, whole)


def test_only_margins_are_sent_and_weights_are_at_one_rank() -> None:
    image = Image(8, 8)
    layer = LocallyConnected2d(2, 5, (8, 8), 3, padding=1)
    place = counted({"h": 2, "w": 2}, {"h": 0, "w": 1})
    local = LocallyConnected(image).local(layer, "", place).to("meta")
    local(torch.empty(3, 2, 4, 4, device="meta", requires_grad=True)).sum().backward()
    # a row of four, then a column of the five that this rank has then, and the same of gradients
    assert place.axis("h").nbytes == {"exchange": 2 * 4 * 3 * 2 * 4}
    assert place.axis("w").nbytes == {"exchange": 2 * 4 * 3 * 2 * 5}
    assert 4 * sum(parameter.numel() for parameter in local.parameters()) == sum(parameter.numel() for parameter in layer.parameters())


def test_the_cut_of_a_network_divides_its_locally_connected_layers() -> None:
    styles = spatial_cut(nn.Sequential(Net(), nn.Flatten()), (3, 2, HEIGHT, WIDTH))
    for name, size in IMAGES.items():
        assert styles[f"0.{name}"] == LocallyConnected(Image(*size))


def test_what_is_not_for_the_images_is_refused() -> None:
    place = counted({"h": 2, "w": 2}, {"h": 0, "w": 0})
    style = LocallyConnected(Image(8, 8))
    assert style.along == ("h", "w")
    assert "use SpatialConv" in style.refusal(nn.Conv2d(1, 1, 3), place)
    assert "The layer is for images of (7, 8)" in style.refusal(LocallyConnected2d(1, 1, (7, 8), 3), place)
    with pytest.raises(CompositionError, match="have no place for a kernel of 5"):
        LocallyConnected2d(1, 1, (4, 4), 5)
