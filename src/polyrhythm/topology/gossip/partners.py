"""The random choice of a worker's partner on a graph, and a question to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.topology import WorkerEndpoint
from polyrhythm.topology.graphs.graph import Graph


def drawn(graph: Graph, step: int, group: Group, present: Callable[[str], bool], draw: np.random.Generator) -> str:
    """One of those that are `present` to whom this member of `group` may send at `step`, each equally likely; empty where there is none."""
    names = [name for rank in graph.neighbours(step, group)[0] if present(name := group.members[rank])]
    return names[int(draw.integers(len(names)))] if names else ""


class Question:
    """`asked` is the worker whose answer is awaited, and `answered` is open when it has come, or never will."""

    def __init__(self, graph: Graph, endpoint: WorkerEndpoint) -> None:
        self.graph = graph
        self.endpoint = endpoint
        self.asked = ""
        self.answered = Latch()

    def ask(self, clock: int, present: Callable[[str], bool]) -> str:
        """One of those that are `present`, drawn to be asked after step `clock`; empty where there is none."""
        self.asked, self.answered = drawn(self.graph, clock, self.endpoint.group, present, self.endpoint.port.rng("partner")), Latch()
        return self.asked

    def end(self) -> None:
        """The answer has come."""
        self.asked = ""
        self.answered.open()

    def lose(self, name: str) -> None:
        """`name` is gone, and answers no more."""
        if name == self.asked:
            self.end()
