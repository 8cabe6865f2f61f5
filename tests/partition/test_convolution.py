"""Laws of divided convolutions: layers and networks on parts of images, or of channels, are those of one process."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from polyrhythm.errors import CompositionError
from polyrhythm.partition.convolution import (
    Image,
    SpatialConv,
    SpatialDropout,
    SpatialMean,
    SpatialNorm,
    SpatialPool,
    WholeImages,
    spatial_cut,
)
from polyrhythm.partition.convolution.window import Window
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace

from .ranks import close, on_ranks
from .styled import counted, divide, put_together, trained

STEPS, SAMPLES, CHANNELS = 20, 2, 4
MESHES = ({"h": 1, "w": 1}, {"h": 2, "w": 1}, {"h": 1, "w": 4}, {"h": 2, "w": 2}, {"h": 4, "w": 2})


def images(height: int, width: int, channels: int = CHANNELS, step: int = 0) -> Tensor:
    return torch.randn(SAMPLES, channels, height, width, dtype=torch.float64, generator=torch.Generator().manual_seed(step))


def layers() -> list[nn.Module]:
    """Convolutions of all kernels, strides and dilations, and poolings."""
    torch.manual_seed(4)
    found: list[nn.Module] = []
    for kernel, stride, dilation in product((1, 3, 5, 7), (1, 2), (1, 2)):
        found.append(nn.Conv2d(CHANNELS, 2, kernel, stride, dilation * (kernel // 2), dilation))
    found += [nn.Conv2d(CHANNELS, 6, 3, groups=2, bias=False), nn.Conv2d(CHANNELS, 3, (3, 5), (1, 3), (2, 0))]
    found += [nn.Conv2d(CHANNELS, 3, (2, 4), padding="same"), nn.Conv2d(CHANNELS, 3, 1, 3), nn.Conv2d(CHANNELS, 2, 3, padding=4)]
    found += [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(3, 1, 1, 2)]
    found += [nn.AvgPool2d(2), nn.AvgPool2d(3, 2, 1), nn.AvgPool2d((3, 2), 2, 1, count_include_pad=False)]
    found += [nn.AvgPool2d(2, divisor_override=3)]
    return [layer.double() for layer in found]


def result(layer: Any, value: Tensor) -> list[Tensor]:
    """The outputs, and the gradients of the inputs and the weights, of a loss that tells all outputs from each other."""
    value.requires_grad_()
    output = layer(value)
    (output * output.detach().cos()).sum().backward()
    return [output.detach(), value.grad, *(weight.grad for weight in layer.parameters())]  # type: ignore[list-item]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_a_layer_on_parts_of_images_is_that_on_whole_ones(mesh: dict[str, int]) -> None:
    """Of 4 x 2 ranks, with strides and odd sizes, some have no outputs."""
    height, width = 11, 13

    def program(place: Place, rank: int) -> Any:
        found = []
        for layer in layers():
            style: Any = SpatialConv(Image(height, width)) if isinstance(layer, nn.Conv2d) else SpatialPool(Image(height, width))
            assert not style.refusal(layer, place)
            size = layer(images(height, width)).shape[-2:]
            local = style.local(layer, "layer", place)
            output, gradient, *weights = result(local, style.image.part(images(height, width), place).detach())
            found.append([Image(*size).join(output, place), style.image.join(gradient, place), *weights])
        return found

    every = on_ranks(program, **mesh)
    for number, layer in enumerate(layers()):
        expected = result(layer, images(height, width))
        for found in every:
            for value, one in zip(found[number], expected, strict=True):
                close(value, one, 1e-9, 1e-9)


def test_parts_may_be_unequal_and_smaller_than_a_margin() -> None:
    image = Image(9, 7, ("h", None), ((3, 0, 1, 1, 4), None))

    def program(place: Place, rank: int) -> Any:
        layer = nn.Sequential(*[nn.Conv2d(CHANNELS, CHANNELS, 7, padding=3, bias=False) for _ in range(2)]).double()
        for weight in layer.parameters():
            nn.init.constant_(weight, 0.01)
        whole = result(layer, images(9, 7))
        local = nn.Sequential(*[SpatialConv(image).local(each, f"{k}", place) for k, each in enumerate(layer)])
        for weight in local.parameters():
            weight.grad = None
        output, gradient, *weights = result(local, image.part(images(9, 7), place).detach())
        for value, one in zip([image.join(output, place), image.join(gradient, place), *weights], whole, strict=True):
            close(value, one, 1e-9, 1e-9)

    on_ranks(program, h=5)


def halo(window: Window, length: int, ranks: int) -> list[int]:
    """How many rows of others each rank needs: the inputs of its outputs that it has not."""
    outputs, per = torch.arange(window.outputs(length)).tensor_split(ranks), torch.arange(length).tensor_split(ranks)
    found = []
    for own, have in zip(outputs, per, strict=True):
        taps = {int(k) * window.stride - window.before + tap for k in own for tap in range(window.reach)}
        found.append(len({row for row in taps if 0 <= row < length} - set(have.tolist())))
    return found


@pytest.mark.parametrize(("kernel", "stride", "dilation"), list(product((1, 3, 5), (1, 2), (1, 2))))
def test_ranks_send_the_rows_and_columns_that_others_need_and_no_more(kernel: int, stride: int, dilation: int) -> None:
    """There and back the same, on tensors without values."""
    height, width, mesh = 19, 17, {"h": 3, "w": 2}
    layer, pad = nn.Conv2d(CHANNELS, 2, kernel, stride, dilation * (kernel // 2), dilation).to("meta"), dilation * (kernel // 2)
    window, image = Window(kernel, stride, dilation, pad, pad), Image(height, width)
    rows, columns = halo(window, height, 3), halo(window, width, 2)
    sent = {"h": 0, "w": 0}
    for h, w in product(range(3), range(2)):
        place = counted(mesh, {"h": h, "w": w})
        lines = image.lines(place)
        own = [line.sizes[line.axis.index] for line in lines]
        local = SpatialConv(image).local(layer, "", place)
        local(torch.zeros(SAMPLES, CHANNELS, *own, device="meta", requires_grad=True)).sum().backward()
        for name in sent:
            sent[name] += place.axis(name).nbytes["exchange"]
    shares = [len(part) for part in torch.arange(width).tensor_split(2)]
    seen = [
        len({r for k in own for t in range(window.reach) if 0 <= (r := int(k) * stride - pad + t) < height})
        for own in torch.arange(window.outputs(height)).tensor_split(3)
    ]
    each = 2 * SAMPLES * CHANNELS * 4
    assert sent["h"] == each * sum(rows) * sum(shares)
    assert sent["w"] == each * sum(columns) * sum(seen)


class Net(nn.Module):
    """A small residual network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.norm = nn.Conv2d(3, 6, 5, 2, 2, bias=False), nn.BatchNorm2d(6)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.block = nn.Sequential(
            nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=None), nn.ReLU(inplace=True), nn.Conv2d(6, 6, 3, padding=1)
        )
        self.mean, self.flat, self.last = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.norm(self.first(x))))
        found: Tensor = self.last(self.flat(self.mean(F.gelu(x + self.block(x)))))
        return found


SIZE = (21, 18)


def loss_of(model: nn.Module, step: int, place: Place | None = None) -> Tensor:
    value = images(*SIZE, 3, step)
    labels = torch.arange(SAMPLES) + step % 3
    return F.cross_entropy(model(value if place is None else Image(*SIZE).part(value, place)), labels)


@pytest.mark.parametrize(("mesh", "steps"), [*((mesh, STEPS) for mesh in MESHES[:2]), *((mesh, 4) for mesh in MESHES[2:])], ids=str)
def test_a_network_trains_on_parts_of_images_as_on_whole_ones(mesh: dict[str, int], steps: int) -> None:
    losses = trained(whole := Net(), loss_of, steps)

    def program(place: Place, rank: int) -> Any:
        model = Net()
        cut = spatial_cut(model, (SAMPLES, 3, *SIZE))
        assert {type(style) for style in cut.values()} == {SpatialConv, SpatialNorm, SpatialPool, SpatialMean}
        model = divide(model, cut, place)
        found = trained(model, lambda model, step: loss_of(model, step, place), steps)
        model.eval()
        with torch.no_grad():
            found.append(loss_of(model, 99, place))
        return found, dict(model.named_parameters()), dict(model.named_buffers())

    whole.eval()
    losses.append(loss_of(whole, 99).detach())
    results = on_ranks(program, **mesh)
    for found, _, buffers in results:
        close(torch.stack(found), torch.stack(losses))
        for name, value in whole.named_buffers():
            close(buffers[name], value)
    put_together([parameters for _, parameters, _ in results], dict(whole.named_parameters()))


class Kept(TorchDispatchMode):
    """The bytes of tensors that are made while it runs and still exist."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for value in tree_leaves(found):
            if isinstance(value, Tensor):
                self._made[StorageWeakRef(value.untyped_storage())] = value.untyped_storage().nbytes()
        return found

    @property
    def nbytes(self) -> int:
        return sum(nbytes for storage, nbytes in self._made.items() if not storage.expired())


def test_a_rank_keeps_its_part_of_the_activations_and_their_margins() -> None:
    """To a tenth, for images that are large beside the margins."""
    shape = (1, 3, 512, 512)
    whole = Net().to("meta")
    whole.block[1].momentum = 0.1
    with Kept() as every:
        loss = whole(torch.zeros(shape, device="meta", dtype=torch.float64)).sum()
    for mesh in ({"h": 2, "w": 2}, {"h": 4, "w": 1}):
        place = counted(mesh, {"h": 1, "w": 0})
        local = divide(Net().to("meta"), spatial_cut(Net(), shape), place)
        part = Image(512, 512).part(torch.zeros(shape, device="meta", dtype=torch.float64), place)
        with Kept() as kept:
            own = local(part.clone()).sum()
        assert kept.nbytes <= 1.1 * every.nbytes / 4
    assert loss.requires_grad
    assert own.requires_grad


@pytest.mark.parametrize("statistics", [None, ("h",), ()])
def test_statistics_of_a_batch_norm_are_over_the_axes_that_are_named(statistics: tuple[str, ...] | None) -> None:
    """Over all of them those of one device; otherwise those of the ranks that they are over."""
    image = Image(6, 6)

    def program(place: Place, rank: int) -> Any:
        norm = nn.BatchNorm2d(CHANNELS).double()
        style = SpatialNorm(("h", "w"), statistics)
        assert not style.refusal(norm, place)
        local = style.local(norm, "norm", place)
        output, gradient, *_ = result(local, image.part(images(6, 6), place).detach())
        return image.join(output, place), image.join(gradient, place), local.running_var

    value = images(6, 6)
    groups = {None: [value], ("h",): value.split(3, 3), (): [part for half in value.split(3, 3) for part in half.split(3, 2)]}[statistics]
    alone = [result(nn.BatchNorm2d(CHANNELS).double(), part.clone()) for part in groups]
    for output, gradient, variance in on_ranks(program, h=2, w=2):
        for number, found in enumerate((output, gradient)):
            parts = [each[number] for each in alone]
            columns = [torch.cat(parts[k : k + 2], 2) for k in range(0, len(parts), 2)] if statistics == () else parts
            close(found, torch.cat(columns, 3) if len(columns) > 1 else columns[0], 1e-9, 1e-9)
        assert variance.shape == (CHANNELS,)


def test_images_that_are_changed_after_a_layer_has_seen_them_are_noticed() -> None:
    place, image = counted({"h": 2, "w": 1}, {"h": 0, "w": 0}), Image(8, 8)
    local = SpatialConv(image).local(nn.Conv2d(CHANNELS, 2, 3).to("meta"), "", place)
    value = torch.zeros(SAMPLES, CHANNELS, 4, 8, device="meta", requires_grad=True) * 2
    output = local(value)
    value.relu_()
    with pytest.raises(RuntimeError, match="changed in place"):
        output.sum().backward()


def test_what_cannot_be_divided_by_place_is_refused() -> None:
    place = counted({"h": 2, "w": 2}, {"h": 0, "w": 0})
    image = Image(8, 8)
    assert "nn.Conv2d" in SpatialConv(image).refusal(nn.Linear(2, 2), place)
    assert "circular" in SpatialConv(image).refusal(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), place)
    assert "no outputs" in SpatialConv(image).refusal(nn.Conv2d(2, 2, 9), place)
    assert "ceil_mode" in SpatialPool(image).refusal(nn.MaxPool2d(2, ceil_mode=True), place)
    assert "nn.MaxPool2d" in SpatialPool(image).refusal(nn.LPPool2d(2, 2), place)
    assert "WholeImages" in SpatialMean(image).refusal(nn.AdaptiveAvgPool2d(2), place)
    assert "batch norms" in SpatialNorm(("h",)).refusal(nn.GroupNorm(1, 2), place)
    assert "name them" in SpatialNorm(("h",), ("w",)).refusal(nn.BatchNorm2d(2), place)
    with pytest.raises(ValueError, match="the cut is for"):
        image.part(images(7, 8), place)
    with pytest.raises(ValueError, match="make the cut for this size"):
        SpatialConv(image).local(nn.Conv2d(2, 2, 1), "", place)(images(3, 4))


class Hidden(nn.Module):
    def __init__(self, hidden: Any, end: Any = None) -> None:
        super().__init__()
        self.first, self.hidden, self.flat = nn.Conv2d(3, 3, 3), hidden, end or nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.flat(self.hidden(self.first(x)))
        return found


@pytest.mark.parametrize(
    ("hidden", "why"),
    [
        (lambda x: F.max_pool2d(x, 2), "max_pool2d"),
        (lambda x: x.mean((2, 3), keepdim=True), "mean"),
        (lambda x: x.flip(3), "flip"),
        (lambda x: torch.cat([x, x], 2), "cat"),
        (nn.GroupNorm(1, 3), "GroupNorm"),
        (nn.Dropout2d(0.2), "Dropout2d"),
        (nn.ConvTranspose2d(3, 3, 3), "ConvTranspose2d"),
        (nn.LocalResponseNorm(2), "LocalResponseNorm|aten"),
    ],
)
def test_a_cut_sees_what_a_model_does_between_its_modules(hidden: Any, why: str) -> None:
    with pytest.raises(CompositionError, match=why):
        spatial_cut(Hidden(hidden), (1, 3, 12, 12))


def test_a_cut_lets_elementwise_operations_pass_and_knows_where_images_end() -> None:
    for hidden in (F.gelu, nn.SiLU(), lambda x: torch.cat([x, 2 * x], 1), nn.AdaptiveAvgPool2d(3)):
        assert len(spatial_cut(Hidden(hidden), (1, 3, 12, 12))) == 2
    assert isinstance(spatial_cut(Hidden(nn.AdaptiveAvgPool2d(3)), (1, 3, 12, 12))["hidden"], WholeImages)
    with pytest.raises(CompositionError, match="never end"):
        spatial_cut(Hidden(F.relu, nn.Identity()), (1, 3, 12, 12))
    shared = nn.Conv2d(3, 3, 3)
    twice = nn.Sequential(shared, shared, nn.Flatten())
    with pytest.raises(CompositionError, match="two sizes"):
        spatial_cut(twice, (1, 3, 12, 12))


def test_a_dropout_on_parts_of_images_is_that_of_one_device() -> None:
    image, drop = Image(7, 5), nn.Dropout(0.4)
    assert isinstance(spatial_cut(Hidden(nn.Dropout(0.2)), (1, 3, 12, 12))["hidden"], SpatialDropout)
    assert "nn.Dropout" in SpatialDropout(image).refusal(nn.Dropout2d(), counted({"h": 1, "w": 1}, {"h": 0, "w": 0}))
    value = images(7, 5)

    def program(place: Place, rank: int) -> Any:
        local = SpatialDropout(image).local(nn.Dropout(0.4), "drop", place)
        return [image.join(local(image.part(value, place)), place) for _ in range(2)]

    whole = DropByPlace().local(drop, "drop", counted({}, {}))
    expected = [whole(value) for _ in range(2)]
    assert 0 < (expected[0] == 0).sum() < value.numel()
    for found in on_ranks(program, h=3, w=2):
        for one, other in zip(found, expected, strict=True):
            close(one, other, 0, 0)
