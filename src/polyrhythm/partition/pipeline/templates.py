"""Divisions of a model that are made beforehand for each number of workers that a pipeline may have (Jang et al., 2023, "Oobleck")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from polyrhythm.errors import CompositionError
from polyrhythm.partition.mesh import Mesh, Size
from polyrhythm.partition.pipeline.balance import BalancedStages, GivenStages
from polyrhythm.partition.pipeline.stages_by_replica import StagesByReplica


@dataclass(frozen=True, slots=True)
class PipelineTemplate:
    """A pipeline of as many workers as there are `stages`, of which the slowest takes `seconds` for a micro-batch."""

    stages: GivenStages
    seconds: float

    @property
    def workers(self) -> int:
        """Their number."""
        return len(self.stages.steps)


@dataclass(frozen=True, slots=True)
class _Cover:
    """Pipelines that together take `rate` micro-batches in a second."""

    rate: float
    pipelines: tuple[PipelineTemplate, ...]


@dataclass(frozen=True)
class PipelineTemplates:
    """The best pipeline of each number of workers from `least` to `most`, for steps that take `costs` seconds.

    `least` workers have the memory for the model; no more than `most`, by default one for each step, are in one pipeline. There are
    `copies` pipelines at least, so that one fewer may be lost at once. Raises CompositionError for numbers that cannot be, and for sizes
    that do not cover every number of workers: with `most` 2 `least` - 1 or more they do.

    Examples:
        >>> templates = PipelineTemplates((1.0, 1.0, 2.0, 2.0), least=2, most=3)
        >>> [template.stages.steps for template in templates.cover(7)]
        [(2, 1, 1), (2, 2), (2, 2)]
    """

    costs: tuple[float, ...]
    least: int = 1
    most: int | None = None
    copies: int = 2

    def __post_init__(self) -> None:
        longest = self._longest
        if not 1 <= self.least <= longest <= len(self.costs) or self.copies < 1:
            raise CompositionError(
                f"Pipelines of {self.least} to {longest} workers for {len(self.costs)} steps in {self.copies} copies cannot be: give 1 or "
                "more, the least first, and no more workers than steps."
            )
        if longest < 2 * self.least - 1:
            raise CompositionError(
                f"Pipelines of {self.least} to {longest} workers do not cover every number of them: allow {2 * self.least - 1} in one, or "
                "divide the model's steps further."
            )

    @property
    def _longest(self) -> int:
        return len(self.costs) if self.most is None else self.most

    @cached_property
    def templates(self) -> tuple[PipelineTemplate, ...]:
        """One for each number of workers."""
        return tuple(self._template(workers) for workers in range(self.least, self._longest + 1))

    def _template(self, workers: int) -> PipelineTemplate:
        sizes = BalancedStages(self.costs).sizes(len(self.costs), workers)
        ends = [sum(sizes[: k + 1]) for k in range(workers)]
        slowest = max(sum(self.costs[end - size : end]) for size, end in zip(sizes, ends, strict=True))
        return PipelineTemplate(GivenStages(sizes), slowest)

    def cover(self, workers: int) -> tuple[PipelineTemplate, ...]:
        """The pipelines that together take most micro-batches in a second, of all of the workers. Raises CompositionError for too few."""
        if workers < self.least * self.copies:
            raise CompositionError(
                f"{workers} workers are too few for {self.copies} pipelines of {self.least}: start the run again when there are "
                f"{self.least * self.copies}, or with copies=1."
            )
        best = [{0: _Cover(0.0, ())}]  # by numbers of workers, then of pipelines, of which more than `copies` count as so many
        for count in range(1, workers + 1):
            found: dict[int, _Cover] = {}
            for template in self.templates[: max(0, count - self.least + 1)]:
                for pipelines, before in best[count - template.workers].items():
                    more = _Cover(before.rate + 1 / template.seconds, (*before.pipelines, template))
                    enough = min(pipelines + 1, self.copies)
                    found[enough] = max(more, found.get(enough, more), key=lambda each: (each.rate, len(each.pipelines)))
            best.append(found)
        return tuple(sorted(best[workers][self.copies].pipelines, key=lambda each: -each.workers))

    def covering_mesh(self, workers: int, axis: str = "pp", across: str = "dp") -> tuple[Mesh, StagesByReplica]:
        """The mesh of the pipelines of `cover`, which uses all of the workers, and its division. Raises CompositionError for too few."""
        chosen = self.cover(workers)
        division = StagesByReplica(tuple(template.stages for template in chosen))
        sizes: dict[str, Size] = {across: len(chosen), axis: tuple(template.workers for template in chosen)}
        return Mesh(**sizes), division

    def mesh(self, workers: int, axis: str = "pp", across: str = "dp") -> tuple[Mesh, GivenStages]:
        """The mesh of equal pipelines with the most micro-batches in a second, and its division; it may leave some workers out.

        `pr.run` resumes a checkpoint on it. Raises CompositionError for fewer workers than one pipeline has.
        """
        if workers < self.least:
            raise CompositionError(f"{workers} workers are too few for a pipeline of {self.least}: wait for others.")
        best = max((each for each in self.templates if each.workers <= workers), key=lambda each: workers // each.workers / each.seconds)
        return Mesh(**{across: workers // best.workers, axis: best.workers}), best.stages
