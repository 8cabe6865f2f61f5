"""The mesh, the cut and the strategies of its data axes, as `run` is given them, made into one strategy and one partition."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from polyrhythm import systems
from polyrhythm.core.catalogue import OfSize
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.protocols.partition import WHOLE, ModelPartition
from polyrhythm.core.strategy.hierarchy.hierarchical import Hierarchical
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.layout import MeshLayout
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.zero.zero import Zero

Strategies = str | Strategy | Zero | Mapping[str, str | Strategy | Zero]
"""One strategy among all replicas, or one for each data axis; `Zero` for replicas that share their state."""


def given_partition(mesh: Mesh | None, cut: Cut | None, strategy: Strategies, workers: object) -> tuple[ModelPartition, object]:
    """The partition, and the number of workers: that of the mesh, if there is one. Raises CompositionError where they do not fit."""
    if mesh is None and isinstance(strategy, Zero):
        mesh, workers = Mesh(dp=-1), 2 if workers is None else workers
    if mesh is None:
        if cut is not None:
            raise CompositionError("A cut divides along the axes of a mesh: give mesh=pr.Mesh(dp=2, tp=2), or leave the cut out.")
        return WHOLE, 2 if workers is None else workers
    if not isinstance(mesh, Mesh) or not isinstance(cut, Cut | None):
        raise CompositionError(f"mesh={mesh!r} and cut={cut!r} are no mesh and cut: give mesh=pr.Mesh(dp=2, tp=2) and cut=pr.Cut(...).")
    if isinstance(workers, Crew):
        return _losing(mesh, Cut() if cut is None else cut, strategy, workers), workers
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int)):
        raise CompositionError(
            f"workers={workers!r} is no number of workers, and {mesh!r} has a fixed one: leave workers out, or give a pipeline with routes "
            "a pr.Crew(least, most, replace=False)."
        )
    if (number := workers or mesh.workers) is None:
        raise CompositionError(f"{mesh!r} has as many workers as there are: say how many, with workers=8.")
    chosen = Cut() if cut is None else cut
    return MeshLayout(mesh.sized(number), chosen, _zero(strategy, [name for name in mesh.names if name not in chosen.axes])), number


def _losing(mesh: Mesh, cut: Cut, strategy: Strategies, crew: Crew) -> MeshLayout:
    """The layout of a crew that may lose workers. Raises CompositionError for what cannot go on without one."""
    pipeline, given = cut.pipeline, f"workers={crew!r} is a crew that changes"
    if pipeline is None or pipeline.routes is None:
        raise CompositionError(
            f"{given}, and each worker of this mesh holds a part of the model: let others do what a lost one did, by "
            "Pipelined(routes=AroundLost()), or give one number of workers, and checkpoints to continue from."
        )
    layout = MeshLayout(mesh.sized(crew.most), cut, _zero(strategy, [name for name in mesh.names if name not in cut.axes]), loses=True)
    others = [name for name, size in layout.mesh.axes if size > 1 and name not in pipeline.joint]
    if others or layout.zero:
        raise CompositionError(
            f"{given}, and a worker that is lost has others along {', '.join(others) or 'an axis of Zero'} which wait for it: have "
            f"{' and '.join(pipeline.joint)} alone."
        )
    if crew.replace or crew.first != crew.most or pipeline.routes.trial:
        raise CompositionError(
            f"{given}, and on a mesh nobody joins, and routes do not wait for a trial of speeds: give pr.Crew({crew.least}, {crew.most}, "
            "replace=False), and routes such as AroundLost()."
        )
    return layout


def _zero(strategy: Strategies, data: list[str]) -> dict[str, Zero]:
    """The axes along which replicas share their state."""
    if isinstance(strategy, Zero):
        if len(data) != 1:
            raise CompositionError(
                f"{strategy!r} is for one axis of replicas, and there are {', '.join(data) or 'none'}: name it, as a dict."
            )
        return {data[0]: strategy}
    given = strategy.items() if isinstance(strategy, Mapping) else ()
    return {name: each for name, each in given if isinstance(each, Zero)}


def given_strategy(strategy: Strategies, partition: ModelPartition) -> Strategy:
    """The strategy among the replicas of `partition`: that of each axis is among the groups of the axes inside of it.

    Raises CompositionError for axes that are no data axes, or that are left out.
    """
    if isinstance(strategy, Zero):
        return _named(systems.resolve("allreduce"), repr(strategy))
    if partition.shape.loses:
        return _summed_by_pipeline(strategy)
    if not isinstance(strategy, Mapping):
        return _summing(systems.resolve(strategy), partition.shape.uneven)
    sizes = {name: size for name, size in partition.shape.axes if name in partition.shape.data}
    wrong = [name for name in strategy if name not in sizes]
    missing = [name for name, size in sizes.items() if name not in strategy and size > 1]
    if wrong or missing or not strategy:
        said = f"the axis {wrong[0]!r}, which is not one of them" if wrong else f"none for {', '.join(missing) or 'any axis'}"
        raise CompositionError(
            f"strategy= has {said}: give one strategy for each data axis, {', '.join(sizes) or 'of which the mesh has none'}, or a single "
            "one for all."
        )
    chosen = {name: systems.resolve(each) for name in sizes if not isinstance(each := strategy.get(name, "allreduce"), Zero)}
    for name in partition.shape.uneven:
        _summing(chosen.get(name, systems.resolve("allreduce")), (name,))
    found = _nested(chosen, sizes) if chosen else systems.resolve("allreduce")
    shared = [f"{name}: {each!r}" for name, each in strategy.items() if isinstance(each, Zero)]
    return _named(found, ", ".join([*([found.name] if chosen else []), *shared])) if shared else found


def _summing(strategy: Strategy, uneven: tuple[str, ...]) -> Strategy:
    """The strategy. Raises CompositionError where replicas with unequal shares of a step would each take a step of their own."""
    gradients = all(exchange.agreement.payload.is_gradient for _, exchange in strategy.exchanges)
    apart = strategy.order_matters or strategy.chooses or not strategy.ends_alike
    if uneven and (apart or not gradients):
        raise CompositionError(
            f"Replicas along {uneven[0]!r} do unequal shares of each step, which are one gradient when all are added up, and by "
            f"{strategy.name} each takes steps of its own: use allreduce there, or routes that give each as much, such as RandomRoutes()."
        )
    return strategy


def _summed_by_pipeline(strategy: Strategies) -> Strategy:
    """All-reduce, which the pipeline itself makes where workers may be lost. Raises CompositionError for other systems."""
    found = [systems.resolve(each) for each in strategy.values() if not isinstance(each, Zero)] if isinstance(strategy, Mapping) else []
    found = found or ([] if isinstance(strategy, Mapping | Zero) else [systems.resolve(strategy)])
    plain = systems.resolve("allreduce")
    for each in found:
        if each != plain:
            raise CompositionError(
                f"{each.name} would exchange what a lost worker has not sent, and the replicas of stages share each step: use allreduce "
                "with a crew that changes, whose sums are made before anybody steps."
            )
    return plain


def _named(strategy: Strategy, name: str) -> Strategy:
    return Strategy(exchange=strategy.exchange, selected=strategy.selected, shuffle=strategy.shuffle, buffers=strategy.buffers, name=name)


def _nested(chosen: Mapping[str, Strategy], sizes: Mapping[str, int]) -> Strategy:
    inward = list(reversed([name for name in chosen if sizes[name] > 1] or list(chosen)[:1]))
    found = chosen[inward[0]]
    for place, name in enumerate(inward[1:], 1):
        outer = chosen[name]
        if len(outer.exchanges) > 1 or len(found.exchanges) > 1:
            several = outer if len(outer.exchanges) > 1 else found
            raise CompositionError(f"{several.name} has several exchanges, and those of one axis only can be among others': take another.")
        groups = OfSize(prod(sizes[each] for each in inward[:place]))
        exchange = Hierarchical(inner=found.exchange, outer=outer.exchange, groups=groups)
        label = f"{name}: {outer.name}, {inward[place - 1]}: {found.name}" if place == 1 else f"{name}: {outer.name}, {found.name}"
        found = Strategy(exchange=exchange, shuffle=found.shuffle, buffers=found.buffers, name=label)
    return found
