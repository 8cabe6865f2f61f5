"""Laws of pipelines: each schedule trains as one process does, whatever the number of stages and of micro-batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.pipeline.balance import GivenStages
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import KeepActivations, Recompute
from polyrhythm.partition.pipeline.pipelined import Pipelined, without_memory
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward, ZeroBubble
from polyrhythm.partition.pipeline.step import Step
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows

from .pipelines import OBJECTIVE, TIME, WIDTH, Language, alone, mean, piped, sample, together
from .ranks import close, on_ranks

SCHEDULES: tuple[Any, ...] = (GPipe(), OneForwardOneBackward(), Interleaved(2), Interleaved(3), ZeroBubble())


def trained(pipelined: Pipelined, layers: int, tied: bool, ranks: int, steps: int) -> tuple[list[float], dict[str, Tensor]]:
    """The losses and the weights of a pipeline of so many ranks, which all see the same losses."""
    found = on_ranks(lambda place, rank: piped(pipelined, Language(layers, tied), place, steps), pp=ranks)
    assert all(losses == found[0][0] for losses, _ in found)
    return found[0][0], together([parameters for _, parameters in found])


@pytest.mark.parametrize(("ranks", "micro_batches", "tied"), [(1, 3, True), (2, 2, True), (3, 2, False), (4, 3, False), (8, 1, True)])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_every_schedule_trains_as_one_process(schedule: Any, ranks: int, micro_batches: int, tied: bool) -> None:
    layers, steps = max(ranks * schedule.chunks, 5), 20 if ranks < 3 else 5
    expected = alone(model := Language(layers, tied), steps)
    losses, weights = trained(Pipelined(micro_batches=micro_batches, schedule=schedule), layers, tied, ranks, steps)
    close(torch.tensor(losses), torch.tensor(expected))
    for name, value in model.named_parameters():
        close(weights[name], value.detach())


@pytest.mark.parametrize("micro_batches", [4, 12])
def test_all_schedules_and_divisions_have_the_same_bits(micro_batches: int) -> None:
    """Nine samples are four micro-batches of unequal sizes, and twelve would be too many."""
    ways = [Pipelined(micro_batches=micro_batches, schedule=schedule) for schedule in SCHEDULES]
    ways += [
        Pipelined(micro_batches=micro_batches, division=GivenStages((5, 1, 3)), memory=memory)
        for memory in (Recompute(), KeepActivations())
    ]
    first, *others = [trained(way, 9, False, 3, 2) for way in ways] + [trained(ways[0], 9, False, 1, 2), trained(ways[4], 9, False, 2, 2)]
    for losses, weights in others:
        assert losses == first[0]
        assert all(torch.equal(value, first[1][name]) for name, value in weights.items())


def test_gradients_of_two_steps_add_up_and_tied_ones_are_summed_once() -> None:
    model = Language(4, True)
    for step in range(2):
        mean(model(sample(step)[0]), sample(step)[1]).backward()

    def program(place: Place, rank: int) -> Any:
        pipeline = Pipelined(micro_batches=2).local(Language(4, True), place, OBJECTIVE)
        for step in range(2):
            pipeline.step(*sample(step))
        return {name: value.grad for name, value in pipeline.module.named_parameters()}

    every = on_ranks(program, pp=2)
    close(every[0]["embedding.weight"], model.embedding.weight.grad)  # type: ignore[arg-type]
    close(every[1]["score.weight"], model.embedding.weight.grad)  # type: ignore[arg-type]
    close(every[1]["layers.1.weight"], model.layers[1].weight.grad)  # type: ignore[arg-type]


def test_a_loss_that_leaves_targets_out_is_the_mean_over_the_others() -> None:
    inputs, targets = sample(1)
    targets[:4] = -100
    targets[6, 1] = -100
    model = Language(4, False)
    expected = mean(model(inputs), targets)
    expected.backward()
    objective = MeanLoss(mean, lambda of: int((of != -100).sum()))

    def program(place: Place, rank: int) -> Any:
        pipeline = Pipelined(micro_batches=5).local(Language(4, False), place, objective)
        return pipeline.step(inputs, targets), dict(pipeline.module.named_parameters())

    for loss, parameters in on_ranks(program, pp=2):
        close(loss, expected.detach())
        for name, value in parameters.items():
            close(value.grad, model.get_parameter(name).grad)  # type: ignore[arg-type]


class Noisy(nn.Sequential):
    """Dropout between linear layers, and normalization over the micro-batch."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        parts = [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.4), nn.Tanh()) for _ in range(4)]
        super().__init__(*parts, nn.BatchNorm1d(4), nn.Linear(4, 2))


def noisy(pipelined: Pipelined, ranks: int) -> tuple[list[float], Tensor]:
    def program(place: Place, rank: int) -> Any:
        pipeline = pipelined.local(Noisy(), place, MeanLoss(F.mse_loss))
        losses = [pipeline.step(torch.arange(24.0).view(6, 4) / (step + 20), torch.ones(6, 2)).item() for step in range(3)]
        buffers = dict(pipeline.module.named_buffers())
        pipeline.module.eval()
        evaluated = pipeline.evaluate(torch.ones(6, 4), torch.ones(6, 2))
        return losses, buffers.get("4.running_mean"), buffers.get("4.num_batches_tracked"), evaluated

    found = on_ranks(program, pp=ranks)
    [(mean_of, count)] = [(buffer, count) for _, buffer, count, _ in found if buffer is not None]
    assert count == 6, "two micro-batches of three steps, each once"
    assert len({evaluated.item() for _, _, _, evaluated in found}) == 1
    return [*found[0][0], found[0][3].item()], mean_of


def test_random_numbers_and_statistics_are_those_of_the_step_and_not_of_the_stage() -> None:
    first, *others = [
        noisy(Pipelined(micro_batches=2, schedule=schedule, memory=memory), ranks)
        for schedule in (GPipe(), ZeroBubble())
        for memory in (KeepActivations(), Recompute())
        for ranks in (1, 2, 4)
    ]
    for losses, running in others:
        assert losses == first[0]
        assert torch.equal(running, first[1])


class Pairs(nn.Module):
    """Steps that hand on a tensor of numbers and one of places, with a branch that no loss depends on and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first, self.second, self.third = (nn.Conv1d(2, 2, 3, padding=1) for _ in range(3))
        self.second.requires_grad_(False)
        self.unused = nn.Linear(1, 1)

    def sequence(self) -> list[Step]:
        return [
            Step(lambda x: (self.first(x), x.argmax(-1), x * 0), ("first",)),
            Step(lambda of: (self.second(of[0]), of[1], of[2] + 1), ("second", "unused")),
            Step(lambda of: (self.third(of[0]) * of[1].unsqueeze(-1)).mean((1, 2)), ("third",)),
        ]


@pytest.mark.parametrize("schedule", [GPipe(), ZeroBubble()], ids=repr)
def test_tuples_cross_cuts_and_what_is_frozen_or_unused_stays_without_gradient(schedule: Any) -> None:
    inputs = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0))
    value, model = inputs, Pairs()
    for step in model.sequence():
        value = step.function(value)
    F.mse_loss(value, torch.ones(5)).backward()

    def program(place: Place, rank: int) -> Any:
        pipeline = Pipelined(micro_batches=3, schedule=schedule).local(Pairs(), place, MeanLoss(F.mse_loss))
        pipeline.step(inputs, torch.ones(5))
        return pipeline.outputs(inputs), {name: each.grad for name, each in pipeline.module.named_parameters()}

    for outputs, gradients in on_ranks(program, pp=3):
        close(outputs, value.detach())
        for name, gradient in gradients.items():
            expected = model.get_parameter(name).grad
            assert (gradient is None) == (expected is None), name
            if gradient is not None and expected is not None:
                close(gradient, expected)


def test_layers_of_a_stage_may_be_divided_along_another_axis() -> None:
    def blocks() -> nn.Sequential:
        torch.manual_seed(8)
        return nn.Sequential(*(nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4)) for _ in range(3)))

    inputs, whole = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), blocks()
    expected = F.mse_loss(whole(inputs), inputs)
    expected.backward()

    def program(place: Place, rank: int) -> Any:
        model: Any = blocks()
        for number, block in enumerate(model):
            block[0] = Columns().local(block[0], f"{number}.0", place)
            block[2] = Rows().local(block[2], f"{number}.2", place)
        pipeline = Pipelined(micro_batches=2, schedule=ZeroBubble()).local(model, place, MeanLoss(F.mse_loss))
        return pipeline.step(inputs, inputs), dict(pipeline.module.named_parameters())

    for loss, parameters in on_ranks(program, pp=3, tp=2):
        close(loss, expected.detach())
        for name, value in parameters.items():
            placement = value._polyrhythm_placement
            assert "pp" in placement.axes
            close(value.grad, placement.piece.take(whole.get_parameter(name).grad))


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_what_is_sent_is_counted_before_it_is_sent(ranks: int) -> None:
    """The activations and their gradients at each cut, in each step, and the loss to all: 4 bytes."""
    rows, steps = 8, 3
    inputs = torch.empty(rows, TIME, dtype=torch.int64, device="meta")
    crossing = rows * TIME * WIDTH * 4

    def program(place: Place, rank: int) -> Any:
        pipeline = Pipelined(micro_batches=3).local(Language(4, False), place, OBJECTIVE, torch.empty(rows, TIME, dtype=torch.int64))
        for step in range(steps):
            pipeline.step(*sample(step, rows))
        return place.axis("pp").nbytes["send_to"], place.axis("pp").calls["send_to"]

    for rank, found in enumerate(on_ranks(program, pp=ranks)):
        axis = CountedAxis("pp", ranks, rank)
        pipeline = Pipelined(micro_batches=3).local(without_memory(Language(4, False)), Place({"pp": axis}), OBJECTIVE, inputs)
        for _ in range(steps):
            assert pipeline.step(inputs, inputs).shape == ()
        ways = (rank > 0) + (rank + 1 < ranks)
        told = 4 * (ranks - 1) * (rank + 1 == ranks)
        assert axis.nbytes["send_to"] == steps * (ways * crossing + told)
        assert found[0] == axis.nbytes["send_to"]
        assert found[1] == axis.calls["send_to"]


class Counted:
    """Keeps activations, and counts for how many micro-batches at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def forward(self, run: Any, value: Any, module: nn.Module) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        made = KeepActivations().forward(run, value, module)

        class Live:
            output = made.output

            def graph(live) -> Any:  # noqa: N805
                self.now -= 1
                return made.graph()

        return Live()


@pytest.mark.parametrize("schedule", [GPipe(), OneForwardOneBackward(), OneForwardOneBackward((5, 3, 1)), Interleaved(2)], ids=repr)
def test_a_rank_keeps_as_many_micro_batches_as_its_schedule_says(schedule: Any) -> None:
    def program(place: Place, rank: int) -> int:
        memory = Counted()
        pipeline = Pipelined(micro_batches=6, schedule=schedule, memory=memory).local(Language(6, False), place, OBJECTIVE)
        pipeline.step(*sample(0))
        assert memory.now == 0
        return memory.most

    assert on_ranks(program, pp=3) == [schedule.live(rank, 3, 6) for rank in range(3)]
