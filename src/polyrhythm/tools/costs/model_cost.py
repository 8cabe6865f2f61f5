"""What a training step of a model costs among workers: its graph, the collectives that add its gradients, and ways to divide it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.network import Network, load
from polyrhythm.tools.costs.collective_cost import CollectiveCost, collective_costs, gradient_of
from polyrhythm.tools.costs.work_depth import WorkDepth, training_work_depth
from polyrhythm.tools.layouts.job import LayoutJob
from polyrhythm.tools.layouts.layout_plan import LayoutPlan
from polyrhythm.tools.layouts.machines import Machines
from polyrhythm.tools.layouts.plan_layouts import plan_layouts
from polyrhythm.tools.layouts.screening import ScreenedLayout
from polyrhythm.tools.layouts.short_runs import ShortRuns
from polyrhythm.tools.layouts.space import LayoutSpace

_SHOWN = 6


@dataclass(frozen=True)
class ModelCost:
    """The cost of a training step of `workers`, each with a batch of `rows` samples; a table of it when it is printed.

    `forward` and `step` are the graph of one worker's batch, `seconds` what the slowest worker computes. `collectives` are of the whole
    gradient, of `nbytes`, on equal lines as slow as the slowest of the network, (latency, bandwidth) in `line`; none overlaps with
    computing. `partitions` divide the batch of all workers.
    """

    workers: int
    rows: int
    nbytes: int
    forward: WorkDepth
    step: WorkDepth
    seconds: float
    line: tuple[float, float]
    collectives: tuple[CollectiveCost, ...]
    partitions: LayoutPlan

    def data(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {
            "workers": self.workers,
            "batch_size": self.rows,
            "gradient_bytes": self.nbytes,
            "forward": _graph(self.forward, self.workers),
            "step": _graph(self.step, self.workers),
            "compute_seconds": self.seconds,
            "latency": self.line[0],
            "bandwidth": self.line[1],
            "collectives": [
                {
                    "name": each.name,
                    "seconds": each.seconds,
                    "step_seconds": self.seconds + each.seconds,
                    "bytes": each.nbytes,
                    "messages": each.messages,
                }
                for each in self.collectives
            ],
            "partitions": self.partitions.rows()["layouts"],
            "refused": self.partitions.rows()["refused"],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"One worker's batch of {self.rows} samples:"
        for name, graph in (("forward", self.forward), ("forward and backward", self.step)):
            yield (
                f"  {name}: work {graph.work:,} ({graph.products:,} multiply-adds of products), depth {graph.depth:,.1f}, "
                f"parallelism {graph.parallelism:,.0f}, intensity {graph.intensity:.1f} a byte; "
                f"on {self.workers} processors at most {graph.bound(self.workers):,.0f} steps"
            )
        for name, (calls, work) in list(self.step.operators.items())[:_SHOWN]:
            yield f"    {name}: {calls} calls, {work / self.step.work:.1%} of the work"
        yield f"  {show_seconds(self.seconds)} on the slowest device"
        yield (
            f"The sum of {show_bytes(self.nbytes)} of gradients among {self.workers} workers, lines of {show_seconds(self.line[0])} and "
            f"{show_bytes(self.line[1])}/s:"
        )
        for each in self.collectives:
            sent = (
                ""
                if each.nbytes is None
                else f"; {show_bytes(each.nbytes / self.workers)}, {(each.messages or 0) / self.workers:g} messages a worker"
            )
            yield f"  {each.name}: {show_seconds(each.seconds)}, a step {show_seconds(self.seconds + each.seconds)}{sent}"
        yield f"Partitions of a batch of {self.rows * self.workers} samples:"
        shown = self._shown_partitions()
        for found in shown:
            links = ", ".join(f"{axis} {show_bytes(sum(lines.values()))}" for axis, lines in found.links.items()) or "nothing sent"
            yield f"  {found.candidate.name}: a step {show_seconds(found.seconds)}; {show_bytes(found.peak)} at a worker; {links}"
        if more := len(self.partitions.layouts) - len(shown):
            yield f"  and {more} more, in --json"
        reasons: dict[str, int] = Counter(refusal.why for refusal in self.partitions.refused)
        for why, count in reasons.items():
            yield f"  {count} cannot be: {why}"

    def _shown_partitions(self) -> list[ScreenedLayout]:
        """Those along one axis, and the best of the others."""
        found = [each.screened for each in self.partitions.layouts]
        alone = [each for each in found if len(each.candidate.mesh.axes) == 1]
        best = [each for each in found if len(each.candidate.mesh.axes) > 1][:_SHOWN]
        return [each for each in found if each in alone or each in best]


def model_cost(model: nn.Module, inputs: Sequence[Tensor], *, workers: int, on: Simulator) -> ModelCost:
    """The cost of a training step of `workers`, each of which has a batch like `inputs`, on the machines of a simulator.

    The model is computed once, forward and backward, with this batch. Raises CompositionError for inputs that are not tensors with the
    samples first.
    """
    if not inputs or any(not isinstance(each, Tensor) or not each.ndim for each in inputs):
        raise CompositionError("The inputs of a model whose cost is asked are tensors, the samples first: give at least one.")
    rows = len(inputs[0])
    forward, step = training_work_depth(model, inputs)
    machines = Machines.of(on, workers, None)
    seconds = max(machines.overhead(rank) + machines.seconds(rank, 2 * step.products) for rank in range(workers))
    gradient = gradient_of(sum(each.numel() for each in model.parameters() if each.requires_grad))
    line = _slowest(on)
    return ModelCost(
        workers, rows, 4 * gradient.numel(), forward, step, seconds, line, tuple(collective_costs(gradient, workers, *line)),
        _partitions(model, inputs, workers, on),
    )  # fmt: skip


def _slowest(on: Simulator) -> tuple[float, float]:
    """The longest latency and the least bandwidth between two hosts."""
    if isinstance(on.network, Instant):
        return 0.0, math.inf
    return (on.network if isinstance(on.network, Network) else load(on.network)).slowest()


def _partitions(model: nn.Module, inputs: Sequence[Tensor], workers: int, on: Simulator) -> LayoutPlan:
    """Ways to divide the batches of all workers, and the model, that compute what one process computes; of one input only."""
    if len(inputs) > 1:
        return LayoutPlan((), ())
    data = torch.cat([inputs[0]] * workers)
    job = LayoutJob(partial(_without_memory, model), _summed, partial(torch.optim.SGD, lr=0.1), (data, torch.empty(len(data))), len(data))
    return plan_layouts(job, on=on, workers=workers, space=LayoutSpace(micro_batches=(4,)).exact, runs=ShortRuns(layouts=0))


def _without_memory(model: nn.Module) -> nn.Module:
    """A copy of the model whose tensors have shapes only; what is tied stays so."""
    memo: dict[int, Any] = {
        id(each): nn.Parameter(torch.empty_like(each, device="meta"), each.requires_grad) for each in model.parameters()
    }
    memo |= {id(each): torch.empty_like(each, device="meta") for each in model.buffers()}
    return deepcopy(model, memo)


def _summed(outputs: Any, targets: Tensor) -> Tensor:
    found = [each.sum() for each in tree_leaves(outputs) if isinstance(each, Tensor) and each.is_floating_point()]
    return torch.stack(found).sum()


def _graph(graph: WorkDepth, workers: int) -> dict[str, Any]:
    return {
        "work": graph.work,
        "multiply_adds": graph.products,
        "depth": graph.depth,
        "parallelism": graph.parallelism,
        "bound": graph.bound(workers),
        "bytes_moved": graph.moved,
        "intensity": graph.intensity,
        "operators": {name: {"calls": calls, "work": work} for name, (calls, work) in graph.operators.items()},
    }
