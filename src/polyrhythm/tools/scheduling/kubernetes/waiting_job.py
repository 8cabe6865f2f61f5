"""A Job whose pods wait for a decision: the gate, and what the decision has to know of the gang."""

from __future__ import annotations

from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.gangs import JOB, LEAST, SIZE
from polyrhythm.tools.scheduling.kubernetes.gates import Gate
from polyrhythm.tools.scheduling.kubernetes.view import QUEUE


def waiting_job(job: Manifest, gate: Gate, least: int | None = None, queue: str | None = None) -> Manifest:
    """The Job `job` as a gang of all its pods, or of `least` or more of them, which waits behind the gate in `queue`."""
    name, size = job["metadata"]["name"], job["spec"]["parallelism"]
    template = job["spec"]["template"]
    metadata = template.get("metadata", {})
    labels = {**metadata.get("labels", {}), JOB: name, **({} if queue is None else {QUEUE: queue})}
    annotations = {**metadata.get("annotations", {}), SIZE: str(size), LEAST: str(size if least is None else least)}
    closed = {**template, "metadata": {**metadata, "labels": labels, "annotations": annotations}, "spec": gate.closed(template["spec"])}
    return {**job, "spec": {**job["spec"], "template": closed}}
