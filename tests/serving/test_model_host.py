"""The models of one machine: batches of inputs of several lengths, and a plan that is installed while a batch begins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import pytest
from sites import machine_of, slot_of, straight

from polyrhythm.serving import DutyTurns, EarlyDrop, Ok
from polyrhythm.serving.server.answers import Failed, ServerOutcome
from polyrhythm.serving.server.model_host import ModelHost
from polyrhythm.serving.server.served_model import Compute, InputForm

SLOT = slot_of(straight("text", 0.001, 0.02), 8, 5.0, "text")
PLAN = machine_of(SLOT)


class Doubling:
    """A model of texts of any length that stacks its batch, as torch and onnxruntime need it, and cannot compute a length of 13."""

    form = InputForm((None,))

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def load(self) -> Compute:
        def compute(batch: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            stacked = np.stack(batch)
            self.shapes.append(stacked.shape)
            time.sleep(0.01)
            if stacked.shape[1] == 13:
                raise ValueError("thirteen words are too many")
            return list(stacked * 2)

        return compute


async def begun(model: Doubling) -> ModelHost:
    host = ModelHost(PLAN.machine, {"text": model}, DutyTurns(EarlyDrop()))
    await host.install(PLAN)
    return host


def text(length: int) -> np.ndarray:
    return np.arange(length, dtype=np.float32)


def answered(model: Doubling, lengths: Sequence[int]) -> list[ServerOutcome]:
    async def main() -> list[ServerOutcome]:
        host = await begun(model)
        try:
            return await asyncio.gather(*(host.answer("text", text(each), 5.0) for each in lengths))
        finally:
            await host.drain()

    return asyncio.run(main())


@pytest.mark.parametrize("lengths", [[3], [3, 3, 3], [3, 3, 5, 4], [5, 3, 4, 3, 5, 3, 3]])
def test_the_length_of_one_input_fails_no_other(lengths: list[int]) -> None:
    model = Doubling()
    for length, answer in zip(lengths, answered(model, lengths), strict=True):
        assert isinstance(answer, Ok)
        assert (answer.result == 2 * text(length)).all()
    assert len(model.shapes) <= 1 + len(set(lengths))  # the first request is a batch of its own


def test_a_shape_that_the_model_refuses_fails_alone() -> None:
    answers = answered(Doubling(), [3, 3, 13, 4])
    assert [type(each) for each in answers] == [Ok, Ok, Failed, Ok]
    assert isinstance(answers[2], Failed)
    assert answers[2].problem == "ValueError: thirteen words are too many"


def test_a_batch_keeps_its_model_when_a_plan_without_it_is_installed_in_the_same_turn() -> None:
    async def main() -> None:
        host = await begun(Doubling())
        # both begin in one turn of the event loop: the batch is chosen, and the plan forgets its model before the batch's task begins
        answer, _ = await asyncio.gather(host.answer("text", text(3), 5.0), host.install(machine_of()))
        assert isinstance(answer, Ok)
        await host.drain()

    asyncio.run(main())
