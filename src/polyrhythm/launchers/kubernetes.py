"""Kubernetes: each worker is a pod of an Indexed Job."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.addresses import outward_address
from polyrhythm.launchers.commands import ORDER
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.kubectl import Kubectl
from polyrhythm.launchers.manifest import Manifest, Pods, from_secret, indexed_job, ranks, secret, service, variable
from polyrhythm.launchers.pods import PodTasks
from polyrhythm.launchers.protocol import TaskOrder, Tasks
from polyrhythm.launchers.submission import SECRET, Submission, WorkerCommand

_PORT = 29400
_LOSSES = 1000
"""So many pods for each worker may fail in a crew that changes, whose driver decides what follows."""


@dataclass(frozen=True, slots=True)
@checked
class Kubernetes(EngineRuntime):
    """Runs on a Kubernetes cluster, by the pods of an Indexed Job, which `kubectl` creates in `namespace` of the cluster of `context`.

    `image` must have Python as `python`, Polyrhythm and what the training function imports. Each pod asks for `cpus` cores, `memory` and
    `gpus` NVIDIA devices; `claim` is a PersistentVolumeClaim, mounted at `mount`, for data and checkpoints that all pods share. Pods must
    reach this process at `driver`, by default the address of its default route: so this process is usually in a pod of the cluster too. If
    a pod is lost, the Job replaces it, and the run continues from its newest checkpoint, up to `restarts` times; in a crew that changes it
    joins the others, who do not stop. `startup` seconds include what it takes to find nodes and to pull the image.
    """

    image: str
    namespace: str | None = None
    cpus: float = 1
    memory: str = "2Gi"
    gpus: int = 0
    claim: str | None = None
    mount: str = "/data"
    python: str = "python"
    kubectl: str = "kubectl"
    context: str | None = None
    driver: str | None = None
    restarts: int = 3
    startup: float = 600.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "kubernetes"

    def driver_address(self) -> str:
        """The address at which pods reach this process."""
        return self.driver or outward_address()

    def start(self, order: TaskOrder) -> Tasks:
        """Create the Job, and a Secret with the order."""
        name = _named("polyrhythm")
        environment = [from_secret(ORDER, name, "order"), *ranks(order.workers)]
        job = indexed_job(self._pods(name, order.workers, order.changes), [self.python, "-m", "polyrhythm.launchers"], environment)
        return PodTasks(self._kubectl, name, order.workers, [secret(name, {"order": msgspec.json.encode(order).decode()}), job])

    def submission(self, job: WorkerCommand) -> Submission:
        """A manifest for kubectl; `driver` and `startup` do not matter."""
        name = _named(job.name)
        found = [variable("MASTER_ADDR", f"{name}-0.{name}"), variable("MASTER_PORT", _PORT), from_secret(SECRET, name, "secret")]
        # a pod cannot know whether it replaces another, so each continues from the newest checkpoint, if any
        pods = indexed_job(self._pods(name, job.workers), [self.python, *job.again], [*ranks(job.workers), *found])
        objects = [secret(name, {"secret": secrets.token_hex(16)}), service(name, _PORT), pods]
        return Submission(self._kubectl.command("apply", "-f", "-"), _documents(objects), reads=True)

    @property
    def _kubectl(self) -> Kubectl:
        return Kubectl(self.kubectl, self.context, self.namespace)

    def _pods(self, name: str, workers: int, changes: bool = False) -> Pods:
        if self.restarts < 0:
            raise CompositionError(f"Kubernetes(restarts={self.restarts}) is negative: give 0 for none.")
        # where one pod fails, the others fail with it if they have joined by themselves
        failures = _LOSSES * workers if changes else self.restarts * workers
        return Pods(
            name, self.image, workers, self.cpus, self.memory, self.gpus, self.threads, failures, claim=self.claim, mount=self.mount
        )


def _named(start: str) -> str:
    return f"{start}-{secrets.token_hex(3)}"


def _documents(objects: Sequence[Manifest]) -> str:
    """JSON is YAML, and kubectl takes either; one List holds all."""
    manifest = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"
