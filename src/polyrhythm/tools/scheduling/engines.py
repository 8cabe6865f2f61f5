"""The engines that carry jobs out, by the names that `--through` takes, each with what makes its backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyrhythm.cluster import Cluster
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.launchers.kubernetes import Kubernetes
from polyrhythm.launchers.ray import Ray
from polyrhythm.launchers.slurm import Slurm
from polyrhythm.tools.scheduling.backend import JobsBackend
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.hosts_backend import HostsBackend
from polyrhythm.tools.scheduling.kubernetes.api import ClusterApi
from polyrhythm.tools.scheduling.kubernetes.jobs import KubernetesJobs
from polyrhythm.tools.scheduling.ray.backend import RayBackend
from polyrhythm.tools.scheduling.slurm.backend import SlurmBackend
from polyrhythm.tools.scheduling.torchrun.backend import TorchrunBackend
from polyrhythm.tools.scheduling.training_jobs import TrainingJob


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The jobs, the hosts and the settings for a backend; `engine` has the options of a launcher by its class's names."""

    cluster: Cluster
    jobs: Sequence[TrainingJob]
    settings: HostSettings
    engine: Callable[[str], Any]
    """The launcher of that name, with the options that were given."""
    now: float


@dataclass(frozen=True, slots=True)
class CarryingEngine:
    """An engine: what makes its backend, whether its hosts are `reached` by a command of ours, whether it has `options`, whether it
    `restarts` a script whose number of workers changes, and whether a job's system can be `chosen` when the job is placed."""

    backend: Callable[[EngineChoice], JobsBackend]
    reached: bool = False
    options: bool = True
    restarts: bool = False
    chosen: bool = True


def _hosts(asked: EngineChoice) -> JobsBackend:
    return HostsBackend(asked.cluster, asked.jobs, asked.settings, asked.now)


def _torchrun(asked: EngineChoice) -> JobsBackend:
    return TorchrunBackend(asked.cluster, asked.jobs, asked.settings, asked.now)


def _ray(asked: EngineChoice) -> JobsBackend:
    launcher: Ray = asked.engine("ray")
    return RayBackend(asked.cluster, asked.jobs, asked.settings, launcher)


def _slurm(asked: EngineChoice) -> JobsBackend:
    launcher: Slurm = asked.engine("slurm")
    return SlurmBackend(asked.cluster, asked.jobs, asked.settings, launcher)


def _kubernetes(asked: EngineChoice) -> JobsBackend:
    launcher: Kubernetes = asked.engine("kubernetes")
    return KubernetesJobs(asked.cluster, asked.jobs, asked.settings, launcher, ClusterApi.found(launcher.context))


THROUGH: Mapping[str, CarryingEngine] = {
    "hosts": CarryingEngine(_hosts, reached=True, options=False),
    "torchrun": CarryingEngine(_torchrun, reached=True, options=False, restarts=True),
    "ray": CarryingEngine(_ray),
    "slurm": CarryingEngine(_slurm),
    "kubernetes": CarryingEngine(_kubernetes, chosen=False),
}


def engine_of(name: str) -> CarryingEngine:
    """The engine of that name. Raises UnknownNameError for others."""
    if name not in THROUGH:
        raise unknown("engine of `polyrhythm cluster run`", name, THROUGH)
    return THROUGH[name]


def backend_through(name: str, asked: EngineChoice) -> JobsBackend:
    """The backend of that name. Raises UnknownNameError for others, and CompositionError for settings that it has no use for."""
    engine = engine_of(name)
    if asked.settings.remote and not engine.reached:
        raise CompositionError(f"--reach is for hosts of one's own, and {name} reaches its nodes by itself: leave it out.")
    for each in asked.jobs:
        if each.train.script is not None and each.job.is_malleable and not engine.restarts:
            raise CompositionError(
                f"The script of the job {each.job.name!r} cannot go on with fewer workers: leave min_workers out, or give "
                "--through torchrun, which starts it again."
            )
    return engine.backend(asked)
