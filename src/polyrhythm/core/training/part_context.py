"""The runtime of a worker that holds a part of a model: what must be equal is compared with the workers that hold the same part."""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace as changed

from polyrhythm.core.kernel.agreement import PART, Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.mesh import MeshShape, WorkerMesh
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker as named
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError


def context_of_part(context: WorkerContext, mesh: WorkerMesh) -> WorkerContext:
    """The context of a worker on `mesh`: itself, where every worker has the whole model."""
    if not mesh.cut:
        return context
    replicas = mesh.replicas(context.port.name)
    context.port.draws_as = named(replicas.rank)
    held = (replicas.name,) if mesh.unequal is None else tuple(mesh.parts[part].name for part in mesh.parts_of(context.port.name))
    return cast(WorkerContext, PartContext(context, held))


class PartContext:
    """A `WorkerContext` of the worker that has `parts`; all else is that of `whole`.

    Facts are compared with workers that have the same ones, values at a moment with those that have one of them.
    """

    def __init__(self, whole: WorkerContext, parts: tuple[str, ...]) -> None:
        self._whole, self._parts, self._part = whole, parts, " and ".join(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def agree(self, facts: Facts, remedy: str) -> None:
        self._whole.agree({**facts, PART: self._part}, remedy)

    def align(self, alignment: Alignment) -> Message | None:
        facts = {**alignment.facts, PART: self._part}

        def judge(shown: Message) -> Facts:
            return {**alignment.judge(shown), PART: self._part}

        return self._whole.align(Alignment(facts, alignment.held, alignment.show, judge, alignment.remedy))

    def compare(self, comparison: Comparison) -> None:
        for part in self._parts:
            self._whole.compare(changed(comparison, moment=f"{part} {comparison.moment}"))


def refuse_in_parts(strategy: Strategy, shape: MeshShape, available: Crew) -> None:
    """Raise CompositionError for what a model in parts cannot have: shared memory, a crew that changes unless routes go around losses."""
    if shape.whole:
        return
    if not available.fixed and not shape.loses:
        raise CompositionError(
            f"workers={available} is a crew that changes, and each worker of this mesh holds a part of the model that no other has: give "
            "one number of workers, and checkpoints to continue from."
        )
    if shape.unequal is not None and (reason := _not_by_parts(strategy)):
        raise CompositionError(
            f"The replicas are divided unequally along {shape.unequal.name!r}, where a worker exchanges each of its parts with others, and "
            f"{strategy.name} {reason}: take allreduce, local-sgd or diloco, or give all replicas as many workers."
        )
    if strategy.shares_memory:
        raise CompositionError(
            f"{strategy.name} has workers write to the same weights, and parts of a model are apart: take another system."
        )


def _not_by_parts(strategy: Strategy) -> str:
    """Why the parts of one replica cannot be exchanged each among other workers; "" if they can."""
    if strategy.order_matters:
        return "merges what comes first, in another order for each part"
    if strategy.chooses:
        return "has workers skip steps"
    if any(exchange.agreement.controller.traits.sets for _, exchange in strategy.exchanges):
        return "has a controller, which measures each part by itself"
    if any(exchange.topology.service is not None for _, exchange in strategy.exchanges):
        return "has servers, which wait for all parts of a worker"
    return "sends samples between neighbours" if strategy.shuffle.sends else ""
