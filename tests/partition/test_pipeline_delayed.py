"""Laws of pipelines that are never emptied: whose gradients they use when, what they keep, and that they do not wait."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.pipeline.delayed import DelayByDepth, DelayedPipeline, SameDelay
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import KeepActivations, Recompute
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.schedule import unrolled
from polyrhythm.partition.pipeline.schedules import GPipe
from polyrhythm.partition.pipeline.timetable import timetable
from polyrhythm.partition.place import Place

from .pipelines import OBJECTIVE, Language, piped
from .ranks import close, on_ranks

STEPS, RANKS, RATE = 8, 4, 0.2


def net() -> nn.Sequential:
    torch.manual_seed(9)
    return nn.Sequential(*(nn.Linear(3, 3) for _ in range(RANKS)))


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def batch(step: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(step)
    return torch.randn(6, 3, generator=drawn), torch.randn(6, 3, generator=drawn)


def expected(delays: list[int], look_ahead: float, momentum: float = 0.0) -> tuple[list[float], list[Tensor]]:
    """One process: the update of rank i at step t is by the gradient at the weights of all ranks at step t - delays[i]."""
    model = net()
    weights = list(model.parameters())
    optimizers = [torch.optim.SGD(layer.parameters(), lr=RATE, momentum=momentum) for layer in model]
    before, gradients, losses = [each.detach().clone() for each in weights], [], []
    for step in range(STEPS + max(delays)):
        now = [each.detach().clone() for each in weights]
        if step < STEPS:
            ahead = [each + look_ahead * (each - was) for each, was in zip(now, before, strict=True)]
            values = dict(zip(dict(model.named_parameters()), [each.requires_grad_() for each in ahead], strict=True))
            inputs, targets = batch(step)
            found = loss(torch.func.functional_call(model, values, inputs), targets)
            losses.append(found.item())
            gradients.append(torch.autograd.grad(found, list(values.values())))
        before = now
        for rank, (optimizer, delay) in enumerate(zip(optimizers, delays, strict=True)):
            optimizer.zero_grad()
            if 0 <= step - delay < STEPS:
                for number in (2 * rank, 2 * rank + 1):
                    weights[number].grad = gradients[step - delay][number]
            optimizer.step()
    return losses, [each.detach() for each in weights]


def late(schedule: DelayedPipeline, micro_batches: int, memory: Any, momentum: float = 0.0) -> list[Any]:
    def program(place: Place, rank: int) -> Any:
        pipeline = Pipelined(micro_batches=micro_batches, schedule=schedule, memory=memory).local(net(), place, MeanLoss(loss))
        own = list(pipeline.module.parameters())
        optimizer = torch.optim.SGD(own, lr=RATE, momentum=momentum)
        losses, kept = [], []

        def update(found: Tensor) -> None:
            losses.append(found.item())
            kept.append(pipeline.weights.kept)
            optimizer.step()
            optimizer.zero_grad()

        for step in range(STEPS):
            update(pipeline.step(*batch(step)))
        for found in pipeline.remaining():
            update(found)
        return losses, [each.detach() for each in own], kept

    return on_ranks(program, pp=RANKS)


@pytest.mark.parametrize("memory", [KeepActivations(), Recompute()], ids=repr)
@pytest.mark.parametrize(
    ("schedule", "micro_batches", "delays"),
    [
        (DelayedPipeline(SameDelay(0)), 3, [0, 0, 0, 0]),
        (DelayedPipeline(SameDelay(1)), 4, [1, 1, 1, 1]),
        (DelayedPipeline(SameDelay(1)), 2, [1, 1, 1, 1]),
        (DelayedPipeline(SameDelay(2)), 1, [2, 2, 2, 2]),
        (DelayedPipeline(DelayByDepth()), 1, [3, 2, 1, 0]),
        (DelayedPipeline(DelayByDepth()), 2, [2, 1, 1, 0]),
        (DelayedPipeline(DelayByDepth(), look_ahead=0.5), 1, [3, 2, 1, 0]),
        (DelayedPipeline(SameDelay(1), look_ahead=0.9), 3, [1, 1, 1, 1]),
        (DelayedPipeline(SameDelay(0), look_ahead=0.9), 2, [0, 0, 0, 0]),
    ],
)
def test_an_update_uses_the_gradient_at_the_weights_of_so_many_steps_before(
    schedule: DelayedPipeline, micro_batches: int, delays: list[int], memory: Any
) -> None:
    momentum = schedule.look_ahead
    losses, weights = expected(delays, schedule.look_ahead, momentum)
    found = late(schedule, micro_batches, memory, momentum)
    for rank, (seen, own, kept) in enumerate(found):
        assert all(map(torch.isnan, torch.tensor(seen[: delays[0]])))
        close(torch.tensor(seen[delays[0] :]), torch.tensor(losses))
        for mine, theirs in zip(own, weights[2 * rank : 2 * rank + 2], strict=True):
            close(mine, theirs)
        copies = schedule.copies(rank, RANKS, micro_batches)
        waiting = delays[rank] - (copies - (schedule.look_ahead > 0))
        assert max(kept) == 12 * (copies + waiting)


def test_no_delay_has_the_bits_of_gpipe() -> None:
    results = [
        on_ranks(lambda place, rank, way=way: piped(Pipelined(micro_batches=4, schedule=way), Language(4, False), place, 4), pp=3)
        for way in (GPipe(), DelayedPipeline(SameDelay(0)))
    ]
    for (losses, one), (others, other) in zip(*results, strict=True):
        assert losses == others
        assert all(torch.equal(value, other[name][0]) for name, (value, _) in one.items())


@pytest.mark.parametrize("delay", [SameDelay(0), SameDelay(1), SameDelay(3), DelayByDepth()], ids=repr)
def test_late_schedules_are_legal_and_keep_what_they_say(delay: Any) -> None:
    schedule, steps = DelayedPipeline(delay), 9
    for ranks in (1, 2, 3, 4, 8):
        for micro_batches in range(1, 10):
            made = timetable(unrolled(schedule, ranks, micro_batches, steps))
            assert [made.live(rank) for rank in range(ranks)] == [schedule.live(rank, ranks, micro_batches) for rank in range(ranks)]
            if delay.of(0, ranks, micro_batches) * micro_batches >= ranks - 1:
                assert made.seconds == 3 * (steps * micro_batches + ranks - 1), "the pipeline is filled and emptied once"


def test_what_cannot_be_late_is_refused() -> None:
    assert "look_ahead=1.0" in DelayedPipeline(look_ahead=1.0).refusal(2, 2)
    assert "Delays of [-1, -1] steps" in DelayedPipeline(SameDelay(-1)).refusal(2, 2)
    place = Place({"pp": CountedAxis("pp", 2, 0)})
    way = Pipelined(schedule=DelayedPipeline())
    assert "embedding.weight and score.weight are one weight at several stages" in way.refusal(Language(3, True), place)
    assert not way.refusal(Language(3, False), place)
    pipeline = way.local(Language(3, False), place, OBJECTIVE)
    with pytest.raises(CompositionError, match="A batch of 3 samples is fewer than micro_batches=4"):
        pipeline.step(torch.zeros(3, 3), torch.zeros(3, 3))


def test_optimizers_that_suffer_are_named() -> None:
    weights = [nn.Parameter(torch.ones(1))]
    adam, sgd = torch.optim.AdamW(weights), torch.optim.SGD(weights, momentum=0.5)
    assert "AdamW trains worse with delayed gradients: give look_ahead=0.9" in DelayedPipeline().warning(adam, 4, 4)
    assert not DelayedPipeline(SameDelay(0)).warning(adam, 4, 4)
    assert not DelayedPipeline(look_ahead=0.9).warning(adam, 4, 4)
    assert not DelayedPipeline().warning(sgd, 4, 4)
    assert "look_ahead=0.9 is meant to be the optimizer's momentum, which is 0.5" in DelayedPipeline(look_ahead=0.9).warning(sgd, 4, 4)
