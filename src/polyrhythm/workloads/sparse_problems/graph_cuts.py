"""A multiway cut of a graph: nodes get points of a simplex, which edges pull together and terminals hold apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.sparse_problems.sparse_steps import RowGradient, SharedRows, SparseSteps
from polyrhythm.workloads.workload import Metric, Sizes, require_positive


class PlantedGraph(NamedTuple):
    """Edges (edges, 2), the planted group of each node (nodes,), and which nodes are terminals (nodes,), as bool."""

    edges: Tensor
    groups: Tensor
    terminals: Tensor


@dataclass(frozen=True, slots=True)
class GraphCuts:
    """The sum over edges of ‖x_u - x_v‖₁, where the x of a terminal is its group's corner of the simplex (Niu et al., 2011, equation 7).

    A step writes the two nodes of an edge: a subgradient, and the projection on the simplex, both in one written gradient. The graph has
    `groups` planted groups; a share `within` of its edges is within one. `terminals` nodes of each group are known.
    """

    nodes: int = 600
    groups: int = 3
    edges: int = 6000
    within: float = 0.85
    terminals: int = 20
    epochs: int = 10
    batch_size: int = 4
    learning_rate: float = 0.2
    decay: float = 0.9

    name: ClassVar[str] = "graph-cuts"
    description: ClassVar[str] = (
        "a cut of a graph of 600 nodes into three groups: steps that write the two nodes of an edge, for shared memory"
    )
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            nodes=self.nodes,
            groups=self.groups,
            edges=self.edges,
            terminals=self.terminals,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
        )
        if not 0 <= self.within <= 1:
            raise WorkloadError(f"{self.name} was given within={self.within}: it is a share of the edges, so give 0 to 1.")
        if self.terminals * self.groups > self.nodes:
            raise WorkloadError(
                f"{self.name} was given {self.terminals} terminals of {self.groups} groups, and {self.nodes} nodes: give fewer."
            )

    @property
    def sizes(self) -> Sizes:
        """Edges are trained on; the groups of nodes that are no terminals are not shown."""
        return Sizes(self.edges, self.nodes - self.terminals * self.groups, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        graph = planted(self, worker.seed)
        free = (~graph.terminals).to(worker.device).unsqueeze(1)

        def gradient(rows: Tensor, batch: tuple[Tensor, ...], rate: float) -> RowGradient:
            (edges,) = batch
            pull = (rows[edges[:, 0]] - rows[edges[:, 1]]).sign()
            nodes, place = edges.flatten().unique(return_inverse=True)  # type: ignore[no-untyped-call]
            sums = torch.zeros(len(nodes), rows.shape[1], dtype=rows.dtype, device=rows.device)
            sums.index_add_(0, place, torch.stack([pull, -pull], dim=1).flatten(0, 1))
            own = rows[nodes]
            # the step at this rate from here ends on the simplex
            return RowGradient(nodes, (own - on_simplex(own - rate * sums)) * free[nodes] / rate)

        beginning = torch.full((self.nodes, self.groups), 1 / self.groups)
        beginning[graph.terminals] = torch.nn.functional.one_hot(graph.groups[graph.terminals], self.groups).float()
        steps = SparseSteps(self.epochs, self.batch_size, self.learning_rate, self.decay)
        steps.train(worker, SharedRows(beginning), TensorDataset(graph.edges), gradient, lambda rows: measured(rows, graph))


def planted(settings: GraphCuts, seed: int) -> PlantedGraph:
    """The graph of a seed: groups of about equal size; no edge is from a node to itself."""
    draw = rng.stream(seed, "graph-cuts", "data")
    groups = np.arange(settings.nodes) % settings.groups
    first = draw.integers(0, settings.nodes, settings.edges)
    steps = draw.integers(1, settings.nodes, settings.edges)
    inside = draw.random(settings.edges) < settings.within
    # a multiple of the number of groups leads to a node of the same group
    steps = np.where(inside, np.maximum(1, steps // settings.groups) * settings.groups, steps)
    second = (first + steps) % settings.nodes
    edges = np.stack([first, second], axis=1)[first != second]
    terminals = np.arange(settings.nodes) < settings.terminals * settings.groups
    return PlantedGraph(torch.from_numpy(edges), torch.from_numpy(groups), torch.from_numpy(terminals))


def on_simplex(points: Tensor) -> Tensor:
    """The nearest points (n, k) whose elements are not negative and sum to 1 (Duchi et al., ICML 2008, figure 1)."""
    ordered = points.sort(dim=1, descending=True).values
    excess = ordered.cumsum(dim=1) - 1
    counts = torch.arange(1, points.shape[1] + 1, device=points.device)
    last = ((ordered - excess / counts) > 0).sum(dim=1, keepdim=True)
    return (points - excess.gather(1, last - 1) / last).clamp(min=0)


def measured(rows: Tensor, graph: PlantedGraph) -> dict[str, float]:
    """The mean over edges of what the cut costs, as points and rounded to groups, and the share of nodes in the planted group.

    Terminals are left out of the share.
    """
    points = on_simplex(rows)
    chosen = points.argmax(dim=1)
    pairs, free = graph.edges, ~graph.terminals
    return {
        "accuracy": (chosen[free] == graph.groups[free]).float().mean().item(),
        "loss": (points[pairs[:, 0]] - points[pairs[:, 1]]).abs().sum(dim=1).mean().item(),
        "cut_loss": (chosen[pairs[:, 0]] != chosen[pairs[:, 1]]).float().mean().item(),
    }
