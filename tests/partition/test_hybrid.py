"""Laws of networks that are divided by samples in some blocks and by place in others."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.convolution import Distribution, HybridCut, ImageBatch, Rates
from polyrhythm.partition.convolution.distribution import HEIGHT, SAMPLES, WIDTH, Redistributed, redistributed, way
from polyrhythm.partition.convolution.hybrid import distributions, shortest
from polyrhythm.partition.place import Place

from .ranks import close, on_ranks
from .styled import counted, divide, put_together, trained

STEPS, SHAPE = 20, (5, 3, 12, 10)
PLACES = Distribution((), "a", "b")


def test_distributions_name_each_axis_once() -> None:
    for axes in (["a"], ["a", "b"], ["a", "b", "c"]):
        found = distributions(axes)
        assert len(set(found)) == len(found)
        assert all(sorted(each.axes) == axes for each in found)
    assert len(distributions(["a", "b"])) == 2 + 4 + 2
    assert len(distributions(["a", "b", "c"])) == 6 + 6 * 2 + 3 * 2


@pytest.mark.parametrize("axes", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_there_is_a_way_between_two_distributions_and_back(axes: list[str]) -> None:
    for before, after in product(distributions(axes), repeat=2):
        moves, here = way(before, after), before
        if moves is None:
            assert len(axes) > 2, "of three axes that divide samples and both sides, the outermost is held"
            assert way(after, before) is None
            continue
        for move in moves:
            assert move in list(here.moves())
            here = here.moved(*move)
        assert here == after
    assert way(Distribution(("a",)), Distribution((), "b")) is None


@pytest.mark.parametrize("sizes", [{"a": 2, "b": 2}, {"a": 4, "b": 2}], ids=str)
def test_a_batch_that_is_moved_is_the_same_batch_and_so_is_its_gradient(sizes: dict[str, int]) -> None:
    """Of five samples, 4 x 2 ranks have some none."""
    batch, value = ImageBatch(5, 7, 6), torch.randn(5, 2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pairs = list(product(distributions(list(sizes)), repeat=2))[:: 5 if sizes["a"] > 2 else 3]

    def program(place: Place, rank: int) -> None:
        for before, after in pairs:
            own = batch.part(value, place, before).detach().requires_grad_()
            moved = redistributed(own, place, batch, before, after)
            close(batch.join(batch.image(after).join(moved.detach(), place), place, after), value, 0, 0)
            moved.backward(batch.part(2 * value, place, after))
            assert own.grad is not None
            close(own.grad, 2 * own.detach(), 0, 0)

    on_ranks(program, **sizes)


def net() -> nn.Sequential:
    torch.manual_seed(8)
    block = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), nn.GELU())
    layers = [nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), block, nn.MaxPool2d(2, 1), nn.Conv2d(6, 4, 3)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).double()


def loss_of(model: nn.Module, step: int, part: Any = None) -> Tensor:
    value = torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return F.cross_entropy(model(value if part is None else part(value)), torch.arange(SHAPE[0]) % 3)


CUTS = {
    "by place": [PLACES] * 7,
    "by samples": [Distribution(("a", "b"))] * 7,
    "place, then samples": [
        PLACES,
        PLACES,
        PLACES,
        Distribution(("a",), "b"),
        Distribution(("a",), None, "b"),
        *[Distribution(("b", "a"))] * 2,
    ],
    "to and fro": [Distribution(("a", "b")), *[Distribution((), "b", "a")] * 3, Distribution(("b",), None, "a"), PLACES, PLACES],
}


@pytest.mark.parametrize(("sizes", "steps"), [({"a": 2, "b": 1}, STEPS), ({"a": 2, "b": 2}, 6)], ids=str)
@pytest.mark.parametrize("name", CUTS)
def test_a_network_trains_in_any_distributions_as_in_one_process(name: str, sizes: dict[str, int], steps: int) -> None:
    losses = trained(whole := net(), loss_of, steps)

    def program(place: Place, rank: int) -> Any:
        cut = HybridCut(net(), SHAPE)
        model = divide(net(), cut.styles(CUTS[name]), place)
        found = trained(model, lambda model, step: loss_of(model, step, lambda x: cut.batch(0).part(x, place, CUTS[name][0])), steps)
        return found, dict(model.named_parameters())

    results = on_ranks(program, **sizes)
    for found, _ in results:
        close(torch.stack(found), torch.stack(losses))
    put_together([parameters for _, parameters in results], dict(whole.named_parameters()))


def test_the_shortest_path_is_the_best_of_all_paths() -> None:
    drawn = torch.Generator().manual_seed(3)
    choices = distributions(["a", "b"])[:5]
    costs, edges = torch.rand(4, 5, generator=drawn), 0.5 * torch.rand(4, 5, 5, generator=drawn)
    at = {each: k for k, each in enumerate(choices)}
    plan = shortest(4, choices, lambda k, x: float(costs[k, at[x]]), lambda k, x, y: float(edges[k, at[x], at[y]]))
    every = [
        sum(float(costs[k, x]) for k, x in enumerate(path)) + sum(float(edges[k, path[k - 1], path[k]]) for k in range(1, 4))
        for path in product(range(5), repeat=4)
    ]
    assert plan.seconds == pytest.approx(min(every))


def small_net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.Conv2d(6, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def test_few_large_images_are_divided_by_place_and_many_small_ones_by_samples() -> None:
    rates, mesh = Rates(1e9, 1e9), {"a": 2, "b": 2}
    large = HybridCut(small_net(), (1, 3, 64, 64)).plan(mesh, rates)
    assert not any(each.samples for each in large.distributions)
    small = HybridCut(small_net(), (16, 3, 8, 8)).plan(mesh, rates)
    assert all(len(each.samples) == 2 for each in small.distributions)


def test_a_plan_is_no_longer_than_any_one_distribution() -> None:
    cut, mesh, rates = HybridCut(small_net(), (4, 3, 32, 32)), {"a": 2, "b": 2}, Rates(1e8, 1e7, 1e-5)
    plan = cut.plan(mesh, rates)
    alone = [shortest(len(cut.names), [each], *cut.times(mesh, rates)).seconds for each in distributions(list(mesh))]
    assert plan.seconds <= min(alone)


def test_what_is_not_a_chain_or_has_no_way_is_refused() -> None:
    place = counted({"a": 2, "b": 2}, {"a": 0, "b": 0})
    with pytest.raises(CompositionError, match=r"nn\.Sequential"):
        HybridCut(nn.Conv2d(3, 3, 3), SHAPE)
    lost = Redistributed((), ImageBatch(4, 8, 8), Distribution(("a",)), Distribution((), "b"))
    assert "the same axes" in lost.refusal(nn.Identity(), place)
    with pytest.raises(CompositionError, match="the same axes"):
        redistributed(torch.zeros(2, 3, 8, 8), place, ImageBatch(4, 8, 8), Distribution(("a",)), Distribution((), "b"))
    assert list(Distribution(("a", "b")).moves()) == [("b", HEIGHT), ("b", WIDTH)]
    assert list(PLACES.moves()) == [("a", SAMPLES), ("b", SAMPLES)]
