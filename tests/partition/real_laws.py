"""What ranks in processes of their own compute with members whose data are divided, compared with one process."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch_ranks import outcomes

from polyrhythm.partition.convolution import Channels, HybridCut, spatial_cut
from polyrhythm.partition.equal_weights import EqualWeights
from polyrhythm.partition.experts import Experts
from polyrhythm.partition.place import Place

from . import test_channels as channels
from . import test_convolution as convolution
from . import test_experts as experts
from . import test_hybrid as hybrid
from . import test_sequence as sequence
from .ranks import axes_of, close
from .styled import divide, trained


def of_a_sequence(cut: str) -> Callable[[], None]:
    length = 9

    def law() -> None:
        place, styles = Place(axes_of({"cp": 4})), sequence.CUTS[cut](length)
        tokens = styles["norm"].tokens
        model = divide(sequence.Language(length), styles, place)
        found = trained(model, lambda model, step: sequence.divided_loss(model, step, tokens, place.axis("cp")), 3)
        close(torch.stack(found), torch.stack(trained(sequence.Language(length), lambda m, step: sequence.whole_loss(m, step, length), 3)))

    return law


def of_images() -> None:
    place, model = Place(axes_of({"h": 2, "w": 2})), convolution.Net()
    model = divide(model, spatial_cut(model, (convolution.SAMPLES, 3, *convolution.SIZE)), place)
    found = trained(model, lambda model, step: convolution.loss_of(model, step, place), 3)
    close(torch.stack(found), torch.stack(trained(convolution.Net(), convolution.loss_of, 3)))


def of_channels(cut: str, mesh: dict[str, int]) -> Callable[[], None]:
    def law() -> None:
        place, entrance = Place(axes_of(mesh)), Channels(channels.CHANNELS, *mesh, *[None] * (2 - len(mesh)))
        model = divide(channels.Stack(), channels.CUTS[cut], place)
        found = trained(model, lambda model, step: channels.loss_of(model, step, place, entrance), 3)
        close(torch.stack(found), torch.stack(trained(channels.Stack(), channels.loss_of, 3)))

    return law


def of_experts(name: str) -> Callable[[], None]:
    def law() -> None:
        place, equal = Place(axes_of({"ep": 4})), EqualWeights(("ep",))
        model = divide(experts.Layer(name), {"first": equal, "experts": Experts(), "last": equal}, place)
        found = trained(model, lambda model, step: experts.part_loss(model, step, place), 3)
        close(torch.stack(found), torch.stack(trained(experts.Layer(name), experts.whole_loss, 3)))

    return law


def of_a_hybrid(name: str) -> Callable[[], None]:
    def law() -> None:
        place, cut, plan = Place(axes_of({"a": 2, "b": 2})), HybridCut(hybrid.net(), hybrid.SHAPE), hybrid.CUTS[name]
        model = divide(hybrid.net(), cut.styles(plan), place)
        found = trained(model, lambda model, step: hybrid.loss_of(model, step, lambda x: cut.batch(0).part(x, place, plan[0])), 3)
        close(torch.stack(found), torch.stack(trained(hybrid.net(), hybrid.loss_of, 3)))

    return law


LAWS = {
    "images, then samples": of_a_hybrid("place, then samples"),
    **{f"experts: {name}": of_experts(name) for name in experts.OPTIONS},
    **{f"sequence: {cut}": of_a_sequence(cut) for cut in sequence.CUTS},
    "images": of_images,
    "channels: x, y": of_channels("mixed", {"c": 4}),
    "channels: w": of_channels("w", {"c": 2, "f": 2}),
}


def every_law(rank: int, ranks: int) -> dict[str, str]:
    """How each law was broken at this rank."""
    return outcomes(LAWS)
