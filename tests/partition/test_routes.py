"""Laws of routed micro-batches: gradients are those of all samples whatever the routes, in a time by formula."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline.routed import RoutedLists, RoutedPass, fitted, passes_of, routed_timetable
from polyrhythm.partition.pipeline.routes import AroundLost, BySpeed, RandomRoutes
from polyrhythm.partition.pipeline.timetable import Durations

STAGES, REPLICAS, MICRO = 3, 3, 4
ROUTES: list[Any] = [
    AroundLost(),
    AroundLost(frozenset({(1, 0)})),
    AroundLost(frozenset({(0, 2), (1, 0), (1, 2)})),
    BySpeed(((1.0, 1.0, 2.0), (1.0, 0.0, 3.0), (1.0, 1.0, 1.0))),
    RandomRoutes(3),
]


def net() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(STAGES)]


def inputs(sample: tuple[int, int]) -> Tensor:
    return torch.randn(2, 4, generator=torch.Generator().manual_seed(10 * sample[0] + sample[1]))


def gradients_of(lists: RoutedLists, paths: Any) -> list[Tensor]:
    """Of each stage, summed over its replicas, which do what is in their lists."""
    seats = {seat: net()[seat[0]] for seat in lists}
    given: dict[tuple[int, Any], Tensor] = {}
    made: dict[tuple[int, Any], Tensor] = {}
    ends = routed_timetable(lists, paths).ends
    for each in sorted(ends, key=lambda each: ends[each]):  # an end is after those of all that it needs
        seat, key = (each.stage, paths[each.sample][each.stage]), (each.stage, each.sample)
        if not each.backward:
            before = inputs(each.sample) if not each.stage else made[each.stage - 1, each.sample].detach()
            given[key] = before.requires_grad_()
            made[key] = seats[seat](given[key])
        elif each.stage + 1 == STAGES:
            F.mse_loss(made[key], torch.zeros(2, 4)).div(len(paths)).backward()  # type: ignore[no-untyped-call]
        else:
            made[key].backward(given[each.stage + 1, each.sample].grad)  # type: ignore[no-untyped-call]
    found = []
    for stage in range(STAGES):
        own = [seats[stage, replica] for replica in range(REPLICAS) if (stage, replica) in seats]
        flat = [torch.cat([parameter.grad.view(-1) for parameter in each.parameters() if parameter.grad is not None]) for each in own]
        found.append(torch.stack([each for each in flat if each.numel()]).sum(0))
    return found


@pytest.mark.parametrize("routes", ROUTES)
def test_gradients_are_those_of_one_process(routes: Any) -> None:
    paths = routes.paths(STAGES, REPLICAS, MICRO)
    whole = nn.Sequential(*net())
    every = torch.cat([inputs(sample) for sample in paths])
    F.mse_loss(whole(every), torch.zeros(len(every), 4)).backward()
    for stage, gradient in zip(whole, gradients_of(fitted(paths), paths), strict=True):
        expected = torch.cat([parameter.grad.view(-1) for parameter in stage.parameters() if parameter.grad is not None])
        torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("stages", "replicas", "micro"), [(4, 2, 8), (4, 3, 12), (2, 4, 9), (6, 2, 12), (3, 5, 20)])
def test_a_lost_stage_costs_its_share_of_the_work_and_no_more_than_without_its_replica(stages: int, replicas: int, micro: int) -> None:
    """A pass forward takes 1, backward 2: M of them and K - 1 of waiting without a loss; the peers have M D / (D - 1) with it."""
    whole = AroundLost().paths(stages, replicas, micro)
    assert routed_timetable(fitted(whole), whole).seconds == 3 * (micro + stages - 1)
    share = math.ceil(micro * replicas / (replicas - 1))
    for stage in range(stages):
        paths = AroundLost(frozenset({(stage, 0)})).paths(stages, replicas, micro)
        found = routed_timetable(fitted(paths), paths)
        assert 3 * share <= found.seconds <= 3 * (share + stages - 1)
        assert (stage, 0) not in found.lists
        few = routed_timetable(fitted(paths, kept=lambda at: stages - at), paths)
        assert all(few.live((at, replica)) <= stages - at for at, replica in few.lists)


def test_speeds_share_the_work() -> None:
    speeds = ((1.0, 1.0), (1.0, 3.0))
    paths = BySpeed(speeds).paths(2, 2, 8)
    loads = Counter(path[1] for path in paths.values())
    assert (loads[0], loads[1]) == (4, 12)
    slow = {(1, 0): Durations(3.0, 6.0)}
    equal = AroundLost().paths(2, 2, 8)
    assert routed_timetable(fitted(paths, slow), paths, slow).seconds < 0.6 * routed_timetable(fitted(equal, slow), equal, slow).seconds


def test_random_routes_give_each_replica_as_much_and_other_ones_in_each_step() -> None:
    one, other = (RandomRoutes().paths(STAGES, REPLICAS, MICRO, step) for step in (0, 1))
    assert one != other
    assert one == RandomRoutes(0).paths(STAGES, REPLICAS, MICRO, 0)
    assert all(len(own) == 2 * MICRO for own in passes_of(one).values())


def test_lists_that_are_not_legal_are_refused() -> None:
    paths = AroundLost().paths(2, 1, 2)
    lists = {seat: list(own) for seat, own in fitted(paths).items()}
    with pytest.raises(CompositionError, match="0 times"):
        routed_timetable({**lists, (1, 0): lists[1, 0][1:]}, paths)
    with pytest.raises(CompositionError, match="2 times"):
        routed_timetable({**lists, (1, 0): [*lists[1, 0], lists[1, 0][0]]}, paths)
    with pytest.raises(CompositionError, match="1 times"):
        routed_timetable({**lists, (0, 1): [RoutedPass(0, (0, 0))]}, paths)
    with pytest.raises(CompositionError, match="stands still"):
        routed_timetable({**lists, (0, 0): lists[0, 0][::-1]}, paths)
    with pytest.raises(CompositionError, match="replicas of stage 1 are lost"):
        AroundLost(frozenset({(1, 0)})).paths(2, 1, 2)
    with pytest.raises(CompositionError, match="a speed of 0 or more"):
        BySpeed(((1.0,),)).paths(2, 1, 2)
