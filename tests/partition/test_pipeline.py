"""Laws of pipelines: each schedule trains as one process does, with its own bubble, memory and messages."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from polyrhythm.partition.pipeline.balance import GivenStages
from polyrhythm.partition.pipeline.memory import KeepActivations, Recompute
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward, ZeroBubble
from polyrhythm.partition.place import Place

from .pipelines import Language, alone, piped, together
from .ranks import close, on_ranks

SCHEDULES: tuple[Any, ...] = (GPipe(), OneForwardOneBackward(), Interleaved(2), Interleaved(3), ZeroBubble())
STEPS = 20


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_every_schedule_trains_as_one_process(schedule: Any, ranks: int, tied: bool) -> None:
    layers = max(ranks * schedule.chunks, 5)
    micro_batches = {1: 2, 2: 9, 3: 4, 4: 5, 8: 1}[ranks]
    model = Language(layers, tied)
    losses = alone(model, STEPS)

    def program(place: Place, rank: int) -> Any:
        return piped(Pipelined(micro_batches=micro_batches, schedule=schedule), Language(layers, tied), place, STEPS)

    found = on_ranks(program, pp=ranks)
    for seen, _ in found:
        close(torch.tensor(seen), torch.tensor(losses))
    for name, value in together([parameters for _, parameters in found]).items():
        close(value, dict(model.named_parameters())[name].detach())
