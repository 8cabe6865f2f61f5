"""The mesh of a run, the cut of its model, and the systems among its replicas, as they are typed. `run` and `join` have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from polyrhythm.core.kernel.crew import Crew
    from polyrhythm.core.strategy.strategy import Strategy
    from polyrhythm.core.training.layouts import Strategies
    from polyrhythm.partition.cut import Cut
    from polyrhythm.partition.mesh import Mesh
    from polyrhythm.partition.zero.zero import Zero

_ZERO = "zero-"
_USUAL = 2
"""Workers where no number was typed."""

MeshText = Annotated[
    str | None,
    typer.Option(
        "--mesh",
        metavar="AXIS=SIZE,…",
        help="Named axes of the workers, the outermost first: dp=2,tp=2. One size may be -1, for the rest of --workers; dp=2,pp=2+3 "
        "is for replicas of 2 and of 3 stages.",
    ),
]
CutText = Annotated[
    str | None,
    typer.Option(
        "--cut",
        metavar="NAME|FILE.py:NAME",
        help="How the model is divided along axes of --mesh: a pr.Cut in the JOB's file, or in another.",
    ),
]


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """The axes of the workers, and how they divide a model; None for what was not given."""

    mesh: MeshText = None
    cut: CutText = None

    def arguments(self) -> list[str]:
        """The options as arguments of a command."""
        named = [("--mesh", self.mesh), ("--cut", self.cut)]
        return [part for flag, value in named if value is not None for part in (flag, value)]

    def on(self, workers: Crew | None) -> tuple[Mesh | None, Crew]:
        """The mesh, and its workers: those that were typed, by default as many as it has; two where it has no number.

        Raises CompositionError for what is no mesh, or not for so many.
        """
        from polyrhythm.core.kernel.crew import Crew
        from polyrhythm.errors import CompositionError

        mesh = self.typed()
        if mesh is None:
            return None, workers or Crew(_USUAL, _USUAL)
        if workers is not None and not workers.fixed:
            raise CompositionError(
                f"--workers {workers} is a crew that changes, and --mesh {self.mesh} has a fixed number: give one number."
            )
        wanted = (mesh.workers or _USUAL) if workers is None else workers.most
        return mesh.sized(wanted), Crew.of(wanted)

    def typed(self) -> Mesh | None:
        """The mesh as it was typed. Raises CompositionError for what is none."""
        from polyrhythm.errors import CompositionError
        from polyrhythm.partition.mesh import Mesh

        if self.mesh is None:
            if self.cut is not None:
                raise CompositionError(f"--cut {self.cut} divides along axes of a mesh: give --mesh dp=2,tp=2 too.")
            return None
        sizes: dict[str, int | tuple[int, ...]] = {}
        for part in self.mesh.split(","):
            name, _, size = (each.strip() for each in part.partition("="))
            own = [each.strip() for each in size.split("+")]
            if not name.isidentifier() or not all(each.removeprefix("-").isdecimal() for each in own) or name in sizes:
                raise CompositionError(
                    f"--mesh {self.mesh} is no list of axes with their sizes: write such as dp=2,tp=2, each name once, or dp=2,pp=2+3 for "
                    "replicas of 2 and of 3 stages."
                )
            sizes[name] = int(size) if len(own) == 1 else tuple(map(int, own))
        return Mesh(**sizes)

    def divided(self, job: str) -> Cut | None:
        """The cut, found in the file of `job` or in its own. Raises PolyrhythmErrors for what is none."""
        from polyrhythm.errors import WorkloadError
        from polyrhythm.partition.cut import Cut
        from polyrhythm.workloads.load import value_of

        if self.cut is None:
            return None
        found = value_of(job, self.cut)
        if not isinstance(found, Cut):
            raise WorkloadError(f"--cut {self.cut} is a {type(found).__name__}: name a pr.Cut(...).")
        return found


def systems_typed(system: str, options: Mapping[str, str]) -> Strategies:
    """The system that was typed, or one for each axis: "site=diloco,dp=zero-3", whose options are AXIS.KEY.

    Raises PolyrhythmErrors for what is none.
    """
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.presets import compose

    if "=" not in system and not system.startswith(_ZERO):
        return compose(system, options)
    if "=" not in system:
        return _of_axis(system, options)
    named: dict[str, str] = {}
    for part in system.split(","):
        axis, _, name = (each.strip() for each in part.partition("="))
        if not axis.isidentifier() or not name or axis in named:
            raise CompositionError(
                f"--system {system} has {part!r}: write AXIS=SYSTEM for each axis, such as site=diloco,dp=zero-3, each once."
            )
        named[axis] = name
    own: dict[str, dict[str, str]] = {axis: {} for axis in named}
    for key, text in options.items():
        axis, dot, rest = key.partition(".")
        if not dot or axis not in own:
            raise CompositionError(f"--option {key}={text} is for none of the axes of --system {system}: write AXIS.KEY=VALUE.")
        own[axis][rest] = text
    return {axis: _of_axis(name, own[axis]) for axis, name in named.items()}


def _of_axis(name: str, options: Mapping[str, str]) -> Strategy | Zero:
    from polyrhythm.errors import CompositionError
    from polyrhythm.partition.zero.zero import Zero
    from polyrhythm.tools.cli.presets import compose

    if not name.startswith(_ZERO):
        return compose(name, options)
    if options or name.removeprefix(_ZERO) not in ("1", "2", "3"):
        raise CompositionError(f"{name} is none of zero-1, zero-2 and zero-3, or was given options: these have none.")
    return Zero(int(name.removeprefix(_ZERO)))
