"""The objects of a training on Kubernetes: a Job whose pods wait for a decision, the Service by which they meet, and their Secret."""

from __future__ import annotations

from pathlib import PurePosixPath

from polyrhythm.errors import CompositionError
from polyrhythm.launchers.kubernetes import Kubernetes
from polyrhythm.launchers.manifest import Manifest, Pods, from_field, from_secret, indexed_job, ranks, secret, service, variable
from polyrhythm.launchers.submission import SECRET
from polyrhythm.tools.scheduling.kubernetes.gates import Gate
from polyrhythm.tools.scheduling.kubernetes.waiting_job import waiting_job
from polyrhythm.tools.scheduling.training_jobs import TrainingJob

_PORT = 29400
_ANYWHERE = "/tmp/polyrhythm"
_LOSSES = 1000
"""So many pods of a crew may fail: their job goes on without them."""


def training_pods(each: TrainingJob, engine: Kubernetes, gate: Gate) -> Manifest:
    """The Job. Raises CompositionError for checkpoints without a volume that outlives pods."""
    job = each.job
    if each.train.every is not None and engine.claim is None:
        raise CompositionError(f"The job {job.name!r} keeps checkpoints, which pods lose: give --engine claim=, a PersistentVolumeClaim.")
    memory = str(job.demand.memory) if job.demand.memory else engine.memory
    failures = _LOSSES * job.workers if job.is_malleable else engine.restarts * job.workers
    threads = max(1, int(job.demand.cores))
    pods = Pods(
        job.name, engine.image, job.workers, job.demand.cores, memory, job.demand.devices, threads, failures, engine.claim, engine.mount
    )
    made = indexed_job(pods, _command(each, engine), _variables(each))
    return waiting_job(made, gate, job.least, job.queue)


def companions(each: TrainingJob, value: str, job: Manifest) -> tuple[Manifest, Manifest]:
    """The Secret with this value, and the Service; they go when the Job that the cluster has made goes."""
    name = each.job.name
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
    made = (secret(name, {"secret": value}), service(name, _PORT))
    for item in made:
        item["metadata"]["ownerReferences"] = [owner]
    return made


def _variables(each: TrainingJob) -> list[Manifest]:
    """Pods of a fixed number have ranks; those of a crew only know where the others may be."""
    job, name = each.job, each.job.name
    common = [variable("MASTER_PORT", _PORT), from_secret(SECRET, name, "secret")]
    if not job.is_malleable:
        return [*ranks(job.workers), variable("MASTER_ADDR", f"{name}-0.{name}"), *common]
    addresses = ",".join(f"{name}-{number}.{name}" for number in range(job.workers))
    own = [from_field("POLYRHYTHM_HOST_ID", "metadata.name"), from_field("POLYRHYTHM_HOST_ADDR", "status.podIP")]
    return [*own, variable("MASTER_ADDR", addresses), *common]


def _command(each: TrainingJob, engine: Kubernetes) -> list[str]:
    job, train = each.job, each.train
    if train.script is not None:
        return [engine.python, train.script, *train.arguments]
    kept = PurePosixPath(engine.mount if engine.claim is not None else _ANYWHERE) / job.name
    command = [engine.python, "-m", "polyrhythm", "join", *train.words()]
    if job.is_malleable:
        # Kubernetes puts the variable's value there
        command += ["--workers", f"{job.least}..{job.workers}", "--bind", "$(POLYRHYTHM_HOST_ADDR)"]
        return [*command, "--out", str(kept / "$(POLYRHYTHM_HOST_ID)"), *train.after]
    command += ["--out", str(kept / "run")]
    if train.every is not None:  # a pod cannot know whether it replaces another
        command += ["--checkpoint", str(kept / "checkpoints"), "--every", str(train.every), "--resume"]
    return [*command, *train.after]
