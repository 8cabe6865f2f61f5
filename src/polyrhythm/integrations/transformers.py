"""Hugging Face's Trainer as one of many workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch
import transformers

from polyrhythm.core.training.data.loader import length
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.accelerate import Accelerator
from polyrhythm.integrations.launcher import alone


class ArgumentsOfWorker:
    """To be derived from before a class of arguments: `class SFTConfig(ArgumentsOfWorker, trl.SFTConfig)`.

    The process is then alone to transformers, whatever started it, and a Trainer tells which of how many workers it is.
    """

    rank_and_workers = (0, 1)

    @cached_property
    def _setup_devices(self) -> torch.device:
        with alone():
            return super()._setup_devices  # type: ignore[misc,no-any-return]

    @property
    def world_size(self) -> int:
        """The number of workers."""
        return self.rank_and_workers[1]

    @property
    def process_index(self) -> int:
        """The rank of this worker among all."""
        return self.rank_and_workers[0]

    @property
    def local_process_index(self) -> int:
        """The worker's rank too, so that worker 0 alone saves and logs."""
        return self.rank_and_workers[0]

    @contextmanager
    def main_process_first(self, local: bool = True, desc: str = "work") -> Iterator[None]:
        """Every worker at once."""
        yield


class TrainerOfWorker:
    """To be derived from before a class of trainers: `class SFTTrainer(TrainerOfWorker, trl.SFTTrainer)`.

    The Trainer is that of `worker`. Its optimizer is attached when it trains, its data are shared out, worker 0 saves and logs, evaluation
    is shared out and its metrics are those of all workers together. Raises CompositionError for arguments that are not `ArgumentsOfWorker`.
    """

    def __init__(self, *given: Any, worker: Worker, **options: Any) -> None:
        self.worker = worker
        super().__init__(*given, **options)

    def create_accelerator_and_postprocess(self) -> None:
        """Create the Trainer's Accelerator, which becomes the worker's."""
        here: Any = self
        arguments: Any = here.args
        if not isinstance(arguments, ArgumentsOfWorker):
            raise CompositionError(
                f"The Trainer was given {type(arguments).__name__} of another module: take TrainingArguments from "
                "polyrhythm.integrations.transformers, or derive yours from its ArgumentsOfWorker."
            )
        arguments.rank_and_workers = (self.worker.rank, self.worker.workers)
        with alone():
            super().create_accelerator_and_postprocess()  # type: ignore[misc]
        options: Any = here.args
        here.accelerator = Accelerator.of(self.worker, here.accelerator)
        here.accelerator.counts_batches = False  # training_step does, which has the batch
        here.gather_function = partial(here.accelerator.gather_for_metrics, use_gather_object=options.eval_use_gather_object)

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Any:
        """Train on a batch as the Trainer does, and count its samples for the next step."""
        self.worker.count(length(inputs))
        return super().training_step(model, inputs, num_items_in_batch)  # type: ignore[misc]

    def _load_best_model(self) -> None:
        self.worker.barrier()  # worker 0 has written it
        super()._load_best_model()  # type: ignore[misc]


class TrainingArguments(ArgumentsOfWorker, transformers.TrainingArguments):  # type: ignore[misc]
    """`transformers.TrainingArguments` of one worker; batch sizes are those of each."""


class Trainer(TrainerOfWorker, transformers.Trainer):  # type: ignore[misc]
    """`transformers.Trainer(..., worker=worker)`: as `TrainerOfWorker`."""
