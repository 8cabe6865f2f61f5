"""The random choice of a worker's partner on a graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyrhythm.core.kernel.group import Group
from polyrhythm.topology.graphs.graph import Graph


def drawn(graph: Graph, step: int, group: Group, present: Callable[[str], bool], draw: np.random.Generator) -> str:
    """One of those that are `present` to whom this member of `group` may send at `step`, each equally likely; empty where there is none."""
    names = [name for rank in graph.neighbours(step, group)[0] if present(name := group.members[rank])]
    return names[int(draw.integers(len(names)))] if names else ""
