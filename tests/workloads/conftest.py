"""A worker that stands alone, or does the work of several in lockstep by taking all their batches at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset, default_collate

from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.view import View
from polyrhythm.core.rng import generator, seed_everything


class LoneTable:
    """A table that nobody shares."""

    def __init__(self, content: Tensor, clocked: Callable[[], None]) -> None:
        self.content = content
        self.clock = clocked

    @property
    def columns(self) -> int:
        return self.content.shape[1]

    servers = 1

    def adopt(self, rows: Tensor, values: Tensor) -> Tensor:
        return values

    def get(self, rows: Tensor | None = None) -> Tensor:
        return self.content.clone() if rows is None else self.content[rows]

    def inc(self, rows: Tensor, values: Tensor) -> None:
        self.content.index_add_(0, rows, values)


class LoneWorker:
    """Keeps what the training function did with it."""

    def __init__(self, workers: int = 1, seed: int = 0, rank: int = 0, steps_at_most: int | None = None) -> None:
        self.rank, self.workers, self.device, self.seed = rank, workers, "cpu", seed
        self.steps_at_most = steps_at_most
        self.models: list[nn.Module] = []
        self.tables: list[LoneTable] = []
        self.initial: list[Tensor] = []
        self.steps = 0
        self.function: Callable[[Any], dict[str, float]] | None = None
        self._shuffle = generator(seed, "shuffle")
        seed_everything(seed, "worker", rank)

    def attach(self, model: nn.Module, optimizer: Optimizer, *, name: str | None = None) -> tuple[nn.Module, Optimizer]:
        self.models.append(model)
        self.initial += [parameter.detach().clone() for parameter in model.parameters()]
        return model, optimizer

    def keep(self, **objects: Any) -> None:
        assert all(each.state_dict() for each in objects.values())

    def report(self, **metrics: float) -> None:
        pass

    @property
    def crew(self) -> View:
        return View.of(workers(1))

    def table(self, name: str, *, rows: int, columns: int = 1, initial: Tensor | None = None, **settings: Any) -> LoneTable:
        self.tables.append(LoneTable(torch.zeros(rows, columns) if initial is None else initial.clone(), self._clocked))
        self.initial.append(self.tables[-1].content.clone())
        return self.tables[-1]

    def _clocked(self) -> None:
        self.steps += 1

    def broadcast(self, value: Any) -> Any:
        return value

    def count(self, samples: int) -> None:
        pass

    @property
    def weights(self) -> list[Tensor]:
        """The parameters of the models, and the content of the tables."""
        return [parameter for model in self.models for parameter in model.parameters()] + [table.content for table in self.tables]

    def epochs(self, count: int) -> Iterable[int]:
        return range(count)

    def batches(self, dataset: Dataset[Any], batch_size: int = 32) -> Iterator[tuple[Tensor, ...]]:
        order = torch.randperm(len(dataset), generator=self._shuffle)  # type: ignore[arg-type]
        for indices in order.split(batch_size * self.workers)[: self.steps_at_most]:
            self.steps += 1
            yield tuple(default_collate([dataset[int(index)] for index in indices]))

    def range(self, *bounds: int) -> Iterator[int]:
        for number in range(*bounds)[: self.steps_at_most]:
            self.steps += 1
            yield number

    def evaluate(self, function: Callable[[Any], dict[str, float]]) -> None:
        self.function = function

    @property
    def final(self) -> dict[str, float]:
        """What the run would end with."""
        assert self.function is not None
        return self.function(*self.models, *(table.content for table in self.tables))


@pytest.fixture
def lone_worker() -> type[LoneWorker]:
    """The fake worker: `lone_worker(workers=4, seed=7)`."""
    return LoneWorker


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    """One thread, as a worker that shares a machine with others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
