"""The bundled chars-gpt under another optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import nn

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.chars import VALIDATION_WINDOWS, CharsGpt, bits_per_character, corpus, network, windows
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.recipes import AdamWRecipe, OptimizerRecipe


@dataclass(frozen=True, slots=True)
class Chars:
    """`CharsGpt`, trained by `recipe`; all workers together go once through `samples` windows."""

    recipe: OptimizerRecipe = AdamWRecipe(2e-3)  # noqa: RUF009 (a frozen value)
    samples: int = 10_240
    batch_size: int = 16
    context: int = 64
    layers: int = 4
    width: int = 128
    heads: int = 4

    name: ClassVar[str] = "chars"
    description: ClassVar[str] = "chars-gpt under another optimizer"
    metric: ClassVar[Metric] = Metric("bits", higher_is_better=False)

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.samples, VALIDATION_WINDOWS, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        text, shape = corpus(), CharsGpt(context=self.context, layers=self.layers, width=self.width, heads=self.heads)
        dataset = windows(text.training, self.context, self.samples)
        model: nn.Module = network(shape)
        model, optimizer = worker.attach(model, self.recipe.build(model.parameters()))
        worker.evaluate(lambda model: {"bits": bits_per_character(model, text.validation, shape, "cpu")})
        for x, y in worker.batches(dataset, batch_size=self.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
