"""The JOBS file: for each job what the decision has to know of it, and the training that its workers do.

[[jobs]]
name = "digits"
workers = 3
min_workers = 2
[jobs.train]
job = "digits-mlp"              # as for `polyrhythm run`
system = "diloco"
to = "accuracy=0.95"            # the target, for predictions
systems = ["diloco", "allreduce"]   # those that `predicted` may choose from; default: the job's own system and these
set = {epochs = 2}
every = 50                      # steps between checkpoints; of jobs whose number of workers does not change

[[jobs]]
name = "own"
[jobs.train]
script = "ddp.py"               # a program of torch.distributed's own, in place of `job`
arguments = ["--epochs", "3"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.cluster import ClusterJob
from polyrhythm.cluster.site_file import jobs_written
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.core.typed_files import mistake
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.systems import find
from polyrhythm.tools.scheduling.training_forecasts import DEFAULT_SYSTEMS, TrainingGoal
from polyrhythm.workloads.load import load_workload, refuse_absent

_NAME = re.compile(r"[^\W_][\w .-]{0,99}")


class TrainingOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A training: the JOB with its own `arguments`, the system and its `option`s, what is `set` of the JOB, the target `to`, and the
    `systems` that may be chosen for it; or a `script` with its arguments, which joins a group of torch.distributed by itself."""

    job: str = ""
    system: str = "allreduce"
    to: str | None = None
    set: dict[str, Any] = {}
    option: dict[str, Any] = {}
    arguments: list[str] = []
    seed: int = 0
    every: int | None = None
    systems: list[str] = []
    script: str | None = None

    def words(self, system: str | None = None) -> list[str]:
        """The arguments of `polyrhythm run` and `join`; of another system if one was chosen, whose options are its own."""
        chosen = system or self.system
        named = ["--system", chosen, *(["--seed", str(self.seed)] if self.seed else [])]
        sets = [part for key, value in self.set.items() for part in ("--set", f"{key}={value}")]
        options = self.option if chosen == self.system else {}
        return [self.job, *named, *sets, *(part for key, value in options.items() for part in ("--option", f"{key}={value}"))]

    @property
    def after(self) -> list[str]:
        """The JOB's own arguments."""
        return ["--", *self.arguments] if self.arguments else []


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job of the cluster and its training."""

    job: ClusterJob
    train: TrainingOrder


def goals_of(jobs: Iterable[TrainingJob], chosen: bool = True) -> dict[str, TrainingGoal]:
    """The goals of forecasts, by job; with its own system alone unless that can be `chosen`.

    Raises PolyrhythmErrors for a job without a target, and for one that cannot be trained so.
    """
    found = {}
    for each in jobs:
        order, name = each.train, each.job.name
        if order.script is not None:
            raise CompositionError(f"The job {name!r} is a script, of which nothing is known before it runs: its end cannot be predicted.")
        if order.to is None:
            raise CompositionError(
                f'The job {name!r} has no target, so that its end cannot be predicted: give jobs.train to = "accuracy=0.95".'
            )
        systems = tuple(order.systems or dict.fromkeys((order.system, *DEFAULT_SYSTEMS))) if chosen else (order.system,)
        for system in systems:
            find(system)
        parse_target(order.to)
        load_workload(order.job, order.set)
        found[name] = TrainingGoal(order.job, order.to, tuple(order.set.items()), systems)
    return found


def load_training_jobs(path: str | Path) -> tuple[TrainingJob, ...]:
    """The jobs of a JOBS file. Raises CompositionError with the place of a mistake, for a job without a training, and for a name that
    no directory can have."""
    found = []
    for job, train in jobs_written(path):
        if not _NAME.fullmatch(job.name):
            raise CompositionError(
                f"The job {job.name!r} of {str(path)!r} cannot have a directory of that name: begin with a letter or a digit, and use "
                'those, spaces and "._-" alone, 100 at most.'
            )
        if not train:
            raise CompositionError(f"The job {job.name!r} of {str(path)!r} has no training: give it jobs.train, with job = the JOB.")
        try:
            found.append(TrainingJob(job, msgspec.convert(train, TrainingOrder)))
        except msgspec.ValidationError as problem:
            wrong = mistake(problem, TrainingOrder)
            raise CompositionError(f"The training of the job {job.name!r} of {str(path)!r} cannot be used: {wrong}.") from problem
        _refuse(found[-1])
    names = [each.job.name for each in found]
    if len(set(names)) < len(names):
        raise CompositionError(f"Two jobs of {str(path)!r} have one name: {sorted(name for name in names if names.count(name) > 1)[0]!r}.")
    return tuple(found)


def refuse_absent_files(jobs: Iterable[TrainingJob]) -> None:
    """Raise WorkloadError for a job whose file is not there, where the workers of all jobs run here."""
    for each in jobs:
        try:
            refuse_absent(each.train.script or each.train.job)
        except WorkloadError as problem:
            raise WorkloadError(f"The job {each.job.name!r} cannot run: {problem}") from None


def _refuse(each: TrainingJob) -> None:
    """Refuse what does not go together in one job."""
    name, train = each.job.name, each.train
    if bool(train.job) == (train.script is not None):
        raise CompositionError(f"The training of the job {name!r} needs either job, a training function, or script, a program: give one.")
    if train.script is not None and train != TrainingOrder(script=train.script, arguments=train.arguments):
        raise CompositionError(f"The job {name!r} is a script, which takes nothing beside its arguments: leave the rest of jobs.train out.")
    if train.every is not None and each.job.is_malleable:
        raise CompositionError(f"The job {name!r} has checkpoints (every) and min_workers below workers: leave one of them out.")
