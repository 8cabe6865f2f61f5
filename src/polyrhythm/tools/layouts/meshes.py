"""The meshes of some workers: sizes of the axes, and the orders of axes that put them on different lines and machines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.partition.mesh import Mesh
from polyrhythm.tools.layouts.machines import Machines

SITE, DATA, STAGES, TENSOR = "site", "dp", "pp", "tp"
"""The axes of replicas among which little is exchanged, of other replicas, of stages, and of parts of layers."""


def meshes(machines: Machines) -> Iterator[Mesh]:
    """Every mesh of the workers, the outermost axis first; of those whose groups are on machines and lines alike, the first.

    An axis of replicas is around another of replicas only.
    """
    seen = set[object]()
    for sizes in _sizes(machines.workers, 4):
        named = dict(zip((SITE, DATA, STAGES, TENSOR), sizes, strict=True))
        if named[SITE] > 1 and named[DATA] == 1:
            continue  # the same as that axis by itself
        larger = [name for name, size in named.items() if size > 1] or [DATA]
        for order in permutations(larger):
            if SITE in order and order.index(SITE) > order.index(DATA):
                continue
            mesh = Mesh(**{name: named[name] for name in order})
            if (found := _placed(mesh, machines)) not in seen:
                seen.add(found)
                yield mesh


def _sizes(product: int, count: int) -> Iterator[tuple[int, ...]]:
    """So many sizes with this product."""
    if count == 1:
        yield (product,)
        return
    for size in range(1, product + 1):
        if product % size == 0:
            for rest in _sizes(product // size, count - 1):
                yield (size, *rest)


def _placed(mesh: Mesh, machines: Machines) -> object:
    """The machines of the groups along each axis."""
    members = tuple(f"worker/{rank}" for rank in range(machines.workers))
    placed = WorkerMesh(mesh.axes, members)
    alike = dict(zip(members, machines.alike, strict=True))
    groups = {name: sorted(tuple(alike[each] for each in group.members) for group in placed.groups(name)) for name in mesh.names}
    return tuple((name, size, tuple(groups[name])) for name, size in sorted(mesh.axes))
