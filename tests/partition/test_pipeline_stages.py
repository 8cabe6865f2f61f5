"""Models as steps, stages as parts of models, and where they are cut."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.pipeline.actions import StageGrid
from polyrhythm.partition.pipeline.balance import BalancedStages, GivenStages
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.pipelined import Pipelined, step_costs, step_nbytes, step_values, without_memory
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward
from polyrhythm.partition.pipeline.stage import stages_at
from polyrhythm.partition.pipeline.step import Step, steps_of
from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import placement_of
from polyrhythm.partition.tensor_parallel.columns import Columns
from polyrhythm.workloads.gpt import Gpt, GptSize

from .pipelines import OBJECTIVE, Language
from .ranks import close, on_ranks

SIZE = GptSize(vocabulary=7, context=5, layers=3, width=8, heads=2)


def gpt() -> Gpt:
    torch.manual_seed(4)
    return Gpt(SIZE)


def test_a_gpt_is_what_its_steps_are() -> None:
    model, value = gpt(), torch.randint(7, (2, 5))
    whole = model(value)
    for step in steps_of(model):
        value = step.function(value)
    assert torch.equal(value, whole)


def test_a_sequential_is_flat_and_another_model_is_refused() -> None:
    class Own(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return x

    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(1, 1))), Own(nn.Linear(1, 1)))
    assert [step.modules for step in steps_of(model)] == [("0",), ("1.0",), ("1.1.0",), ("2",)]
    with pytest.raises(CompositionError, match=r"Linear is no nn\.Sequential and has no method sequence"):
        steps_of(nn.Linear(1, 1))


def test_a_parameter_of_no_step_is_refused() -> None:
    class Lost(nn.Sequential):
        def sequence(self) -> list[Step]:
            return [Step(self[0], ("0",))]

    with pytest.raises(CompositionError, match=r"No step of Lost names 1\.weight"):
        steps_of(Lost(nn.Linear(1, 1), nn.Linear(1, 1)))


def test_stages_have_the_names_of_the_whole_and_nothing_of_others() -> None:
    names = [name for name, _ in Language(5, False).named_parameters()]
    for chunks in (1, 2):
        grid, sizes = StageGrid(5 // chunks, chunks), {1: (1, 1, 1, 1, 1), 2: (1, 1, 1, 2)}[chunks]
        parts = [stages_at(Language(5, False), sizes, rank, grid, "pp") for rank in range(grid.ranks)]
        found = [name for part in parts for name, _ in part.model.named_parameters()]
        assert sorted(found) == sorted(names)
        assert all(placement_of(each).axes == ("pp",) for part in parts for each in part.model.parameters())
        assert [each.number for part in parts[:1] for chunk in part.chunks for each in chunk] == ([0] if chunks == 1 else [0, 2])


def test_the_first_that_holds_a_tied_parameter_is_its_owner() -> None:
    parts = [stages_at(Language(4, True), (2, 1, 1), rank, StageGrid(3), "pp") for rank in range(3)]
    copies = {name: placement_of(each).copy_of for part in parts for name, each in part.model.named_parameters()}
    assert {name for name, owner in copies.items() if owner} == {"score.weight"}
    assert copies["score.weight"] == "embedding.weight"
    assert [[(tied.name, tied.holders) for tied in part.tied] for part in parts] == [
        [("embedding.weight", (0, 2))],
        [],
        [("score.weight", (0, 2))],
    ]
    whole = stages_at(Language(4, True), (2, 1, 1), 0, StageGrid(1, 3), "pp")
    assert not whole.tied
    assert not any(placement_of(each).copy_of or placement_of(each).axes for each in whole.model.parameters())


def test_a_module_that_stands_twice_is_tied() -> None:
    shared = nn.Linear(2, 2)
    [first, second] = [
        stages_at(model, (1, 2), rank, StageGrid(2), "pp")
        for rank, model in enumerate([nn.Sequential(shared, nn.ReLU(), shared)] * 1 + [nn.Sequential(shared, nn.ReLU(), shared)])
    ]
    assert [tied.name for tied in first.tied] == ["0.weight", "0.bias"]
    assert [tied.name for tied in second.tied] == ["2.weight", "2.bias"]


def test_what_is_divided_after_the_cut_stays_at_its_stage() -> None:
    place = Place({"pp": CountedAxis("pp", 2, 1), "tp": CountedAxis("tp", 2, 0)})
    model: Any = stages_at(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 4)), (1, 1), 1, StageGrid(2), "pp").model
    model[1] = Columns().local(model[1], "1", place)
    assert placement_of(model[1].weight).axes == ("tp", "pp")


def test_what_another_stage_has_is_not_used_in_silence() -> None:
    class Wrong(nn.Sequential):
        def sequence(self) -> list[Step]:
            return [Step(lambda x: self[1](x), ("0",)), Step(self[1], ("1",))]

    [step] = stages_at(Wrong(nn.Linear(1, 1), nn.Linear(1, 1)), (1, 1), 0, StageGrid(2), "pp").chunks[0]
    with pytest.raises(WorkloadError, match="1 is used in a stage that does not have it"):
        step.step.function(torch.ones(1))


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=8), st.integers(1, 5), st.data())
@settings(max_examples=60, deadline=None)
def test_no_division_has_a_quicker_slowest_stage(costs: list[float], stages: int, data: st.DataObject) -> None:
    if stages > len(costs):
        with pytest.raises(CompositionError, match=f"A model of {len(costs)} steps cannot be {stages} stages"):
            BalancedStages(tuple(costs)).sizes(len(costs), stages)
        return
    speeds = tuple(data.draw(st.floats(0.5, 4.0)) for _ in range(stages))

    def slowest(sizes: tuple[int, ...]) -> float:
        ends = [sum(sizes[: k + 1]) for k in range(stages)]
        return max(sum(costs[end - size : end]) / speed for end, size, speed in zip(ends, sizes, speeds, strict=True))

    cuts = combinations(range(1, len(costs)), stages - 1)
    every = [tuple(b - a for a, b in zip((0, *cut), (*cut, len(costs)), strict=True)) for cut in cuts]
    found = BalancedStages(tuple(costs), speeds).sizes(len(costs), stages)
    assert found in every
    assert slowest(found) == pytest.approx(min(map(slowest, every)))


def test_equal_steps_are_divided_evenly_and_by_speed() -> None:
    assert sorted(BalancedStages().sizes(10, 4)) == [2, 2, 3, 3]
    assert BalancedStages(speeds=(1, 3)).sizes(8, 2) == (2, 6)


def test_limits_of_memory_are_kept_or_refused() -> None:
    assert BalancedStages((1, 1, 1, 1), nbytes=(8, 1, 1, 1), limits=(8, 9)).sizes(4, 2) == (1, 3)
    with pytest.raises(CompositionError, match="No division of 2 steps keeps every stage within limits"):
        BalancedStages(nbytes=(8, 1), limits=(4, 9)).sizes(2, 2)
    with pytest.raises(CompositionError, match="speeds has 3 numbers, and 2 are needed"):
        BalancedStages(speeds=(1, 1, 1)).sizes(4, 2)
    with pytest.raises(CompositionError, match="not positive"):
        BalancedStages(speeds=(1, 0)).sizes(4, 2)
    with pytest.raises(CompositionError, match="give each stage 1 or more"):
        GivenStages((4, 0)).sizes(4, 2)


def test_costs_and_outlines_are_counted_without_memory() -> None:
    model = without_memory(gpt())
    assert all(each.is_meta for each in model.parameters())
    inputs = torch.zeros(2, 5, dtype=torch.int64)
    costs = step_costs(model, inputs)
    assert costs[1:4] == (2 * 2 * 5 * 12 * 8 * 8 + 2 * 2 * 2 * 2 * 5 * 5 * 4,) * 3
    assert [tuple(value.shape) for value in step_values(model, inputs)] == [(2, 5, 8)] * 5 + [(2, 5, 7)]
    assert sum(step_nbytes(model)) == 4 * sum(each.numel() for each in model.parameters())
    assert step_nbytes(Language(3, True))[0] == step_nbytes(Language(3, False))[0]


def test_a_pipeline_that_cannot_be_is_refused() -> None:
    place = Place({"pp": CountedAxis("pp", 4, 0)})
    assert "A model of 3 steps cannot be 4 stages" in Pipelined().refusal(Language(3, False), place)
    assert "A model of 5 steps cannot be 8 stages" in Pipelined(schedule=Interleaved(2)).refusal(Language(5, False), place)
    assert "micro_batches=0" in Pipelined(micro_batches=0).refusal(Language(5, False), place)
    assert "in_flight=(1, 2)" in Pipelined(schedule=OneForwardOneBackward((1, 2))).refusal(Language(5, False), place)
    with pytest.raises(CompositionError, match="the mesh has pp"):
        Pipelined("stages").refusal(Language(5, False), place)
    with pytest.raises(CompositionError, match="has no method sequence"):
        Pipelined().local(nn.Linear(1, 1), place, OBJECTIVE)
    pipeline = Pipelined().local(Language(3, False), Place({"pp": CountedAxis("pp", 1, 0)}), OBJECTIVE)
    with pytest.raises(CompositionError, match="a batch without samples"):
        pipeline.step(torch.zeros(0, 3), torch.zeros(0, 3))


def test_a_gpt_evaluates_and_answers_as_in_one_process() -> None:
    symbols = torch.randint(7, (3, 5), generator=torch.Generator().manual_seed(0))
    whole = gpt()
    scores = whole(symbols)

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def program(place: Place, rank: int) -> Any:
        costs = step_costs(gpt(), symbols)
        pipeline = Pipelined(micro_batches=2, schedule=GPipe(), division=BalancedStages(costs)).local(gpt(), place, MeanLoss(loss))
        found = [pipeline.evaluate(symbols, symbols), pipeline.outputs(symbols), pipeline.outputs(symbols[:1])]
        assert all(each.grad is None for each in pipeline.module.parameters())
        return found

    for evaluated, answered, one in on_ranks(program, pp=3):
        close(evaluated, loss(scores, symbols).detach())
        close(answered, scores.detach())
        close(one, scores[:1].detach())
