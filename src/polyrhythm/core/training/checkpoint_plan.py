"""The checkpoints of a run: where it writes them, and which one it continues from.

`Training` and `join` ask for the plan of a run, `run` for the settings in its record, and the worker for manifests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.checkpoints.manifest import Manifest
from polyrhythm.core.checkpoints.plan import CheckpointPlan, RunOrigin, path_given
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.checkpoints.store import CheckpointStore, find
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.circumstances import LAYOUT, changes, moved, promise
from polyrhythm.core.training.resumed_by_others import resumed_by_others
from polyrhythm.errors import CheckpointError

STRATEGY = "strategy"
"""The name by which a resumed run has its own strategy, and not that of the checkpoint."""
SWITCHED = (
    "Another strategy wrote it: the run begins with the mean of its workers' weights and of what their optimizers remember, and the "
    "exchange begins anew."
)
RESUMES, CHANGED = "how it resumes", "changed since the checkpoint"
"""Settings of a resumed run in its record."""


def manifest_of(plan: StrategyPlan, step: int, seconds: float, chosen: CheckpointPlan) -> Manifest:
    """The manifest of a checkpoint after `step` of a run by `plan`."""
    groups = [list(members) for each in plan.exchanges for _, members in each.plan.groups]
    return Manifest(
        step,
        seconds,
        [each for each in plan.mesh.members if each not in plan.mesh.absent],
        len(plan.servers),
        plan.mesh.seed,
        described(plan.strategy),
        groups,
        chosen.changes,
        circumstances=dict(chosen.circumstances),
        resumes=promise(plan.strategy),
    )


def described(strategy: Strategy) -> dict[str, str]:
    """The pieces by axis, without the addresses of Python objects."""
    return {axis: re.sub(r" at 0x[0-9a-f]+", "", repr(piece)) for axis, piece in strategy.pieces.items()}


def planned(plan: StrategyPlan, wanted: Checkpoints, here: Mapping[str, str] = MappingProxyType({})) -> CheckpointPlan:
    """The checkpoint plan of a run by `plan` in the circumstances `here`: where it writes checkpoints, and which one it continues from.

    Raises CheckpointError for a checkpoint of another strategy, seed or number of servers, for a path that is not a checkpoint, or for a
    new run in a directory with checkpoints of another, or in one in which none can be written.
    """
    store = None if wanted.directory is None else CheckpointStore(path_given(wanted.directory), wanted.keep)
    if store is not None:
        store.prepare()
    resumed = _resumed(store, wanted.resume)
    if store is not None and wanted.resume is False and (earlier := store.newest()) is not None:
        raise CheckpointError(
            f"{store.directory} has checkpoints of an earlier run, the newest is {earlier.path.name}: resume it (--resume, or "
            "resume=True), delete them, or give another directory."
        )
    grace = 0.0 if store is None else float(wanted.grace)
    chosen = CheckpointPlan(store, wanted.moments, resumed, grace, frozenset(wanted.override), wanted.restarts, here)
    if resumed is None:
        return chosen
    found = resumed.manifest
    if STRATEGY in wanted.override and found.strategy != described(plan.strategy):
        return _switched(chosen, plan, resumed)
    relaid = found.circumstances.get(LAYOUT) != here.get(LAYOUT)
    if relaid and LAYOUT not in found.circumstances:
        raise CheckpointError(f"{resumed.path} is of a run without a mesh, and this one has one: begin it with mesh=pr.Mesh(dp=...), too.")
    relaid = relaid or (bool(plan.mesh.cut) and tuple(found.members) != plan.mesh.members)  # a lost worker's part is others' too
    changed = _changed(resumed, manifest_of(plan, 0, 0.0, chosen)) or relaid
    return replace(chosen, changed=changed, relaid=relaid, origin=RunOrigin(found.step, found.seconds, found.changes + changed))


def _switched(chosen: CheckpointPlan, plan: StrategyPlan, resumed: Checkpoint) -> CheckpointPlan:
    """The plan of a run that continues a checkpoint of another strategy; its steps begin at 0. Raises CheckpointError where none can."""
    resumed.check()
    found = resumed.manifest
    if LAYOUT in found.circumstances or LAYOUT in chosen.circumstances or plan.mesh.cut:
        raise CheckpointError(f"{resumed.path} is of a run with a mesh, whose strategy cannot change: resume it with that of the run.")
    if found.seed != plan.mesh.seed:
        raise CheckpointError(f"{resumed.path} belongs to a run with the seed {found.seed}, and this one has {plan.mesh.seed}: give that.")
    if chosen.store is not None and chosen.store.directory == resumed.path.parent:
        raise CheckpointError(
            f"{resumed.path} is of another strategy, and steps count from 0 again: give another directory for checkpoints."
        )
    return replace(chosen, changed=True, switched=True, origin=RunOrigin(0, found.seconds, found.changes + 1))


def under_way(wanted: Checkpoints, here: Mapping[str, str]) -> CheckpointPlan:
    """The checkpoint plan of a worker that joins a run under way: it continues from the state of another, and not from a checkpoint."""
    store = None if wanted.directory is None else CheckpointStore(path_given(wanted.directory), wanted.keep)
    grace = 0.0 if store is None else float(wanted.grace)
    return CheckpointPlan(store, wanted.moments, None, grace, frozenset(wanted.override), wanted.restarts, here)


def _changed(resumed: Checkpoint, mine: Manifest) -> bool:
    """True if a run that would write `mine` has other workers, or other groups, than the one that is resumed; refuses other changes."""
    resumed.check()
    found = resumed.manifest
    strategies = _differences(found.strategy, mine.strategy), _differences(mine.strategy, found.strategy)
    compared: tuple[tuple[str, object, object], ...] = (("strategy", *strategies), ("seed", found.seed, mine.seed))
    for what, there, now in compared:
        if there != now:
            raise CheckpointError(
                f"{resumed.path} belongs to a run with another {what}: {there}, where this run has {now}. Resume with the settings of "
                "that run, or give another directory."
                + (" With override=['strategy'] the weights go on, and the exchange begins anew." if what == STRATEGY else "")
            )
    if found.servers != mine.servers:
        before, now = (f"{_numbered(each.servers, 'server')} of {_numbered(len(each.members), 'worker')}" for each in (found, mine))
        raise CheckpointError(
            f"{resumed.path} has the states of {before}, and this run has {now}: what a server holds is not divided anew. Resume with "
            f"{_numbered(len(found.members), 'worker')}, or give the strategy a number of servers from the beginning."
        )
    return found.members != mine.members or found.groups != mine.groups


def _numbered(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def newest(wanted: Checkpoints) -> Checkpoint | None:
    """The newest checkpoint in the directory of a run, if there is any."""
    return None if wanted.directory is None else CheckpointStore(path_given(wanted.directory), wanted.keep).newest()


def _differences(pieces: dict[str, str], others: dict[str, str]) -> str:
    """The pieces that the others do not have, by axis."""
    return ", ".join(f"{axis} {piece}" for axis, piece in pieces.items() if others.get(axis) != piece) or "no other pieces"


def _resumed(store: CheckpointStore | None, resume: bool | str | Path) -> Checkpoint | None:
    if isinstance(resume, bool):
        return store.newest() if resume and store is not None else None
    return find(path_given(resume))


def recorded_checkpoints(wanted: Checkpoints, strategy: Strategy, count: int, here: Mapping[str, str]) -> dict[str, str]:
    """The settings about checkpoints, as the record of a run of `count` workers in the circumstances `here` shows them."""
    found = {}
    if wanted.directory is not None:
        found["checkpoints"] = str(path_given(wanted.directory))
    resumed = _resumed(None if wanted.directory is None else CheckpointStore(path_given(wanted.directory), wanted.keep), wanted.resume)
    if resumed is not None:
        found["resumed"] = f"{resumed.path}, after step {resumed.manifest.step}"
        before, ending = resumed.manifest.circumstances, resumed.manifest.resumes
        switched = STRATEGY in wanted.override and resumed.manifest.strategy != described(strategy)
        others = [SWITCHED] if switched else resumed_by_others(strategy, resumed.manifest.members, workers(count))
        found[RESUMES] = " ".join([*moved(before, here), *others, *overridden(wanted), *([] if others else [ending])])
        if changed := changes(before, here):
            found[CHANGED] = " ".join(changed)
    return found


def overridden(wanted: Checkpoints) -> list[str]:
    """A sentence about settings of which the run takes its own."""
    return [f"Its own and not those of the checkpoint are: {', '.join(wanted.override)}."] if wanted.override else []
