"""Gangs of pods: who is let in where, as the cluster itself has it, so that a scheduler which begins anew knows what the last one decided.

Kubernetes changes one object at a time, and a gang is several. So the change that lets the first pod in also records on it where all others
go (an annotation): before it nobody is in, and after it the whole gang has its room, no matter who carries out the rest. A pod's own gate
says where it was let in, and the record where those go that still wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.gates import Gate

JOB = "polyrhythm.dev/job"
"""The label of all pods of a gang."""
LEAST = "polyrhythm.dev/least"
"""The annotation with the least number of pods that a gang trains with; without it all are needed."""
RECORD = "polyrhythm.dev/gang"
"""The annotation with the nodes of all pods, on the first that was let in."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods of one gang by name, the nodes of those that are let in (`placed`), and those that wait though a record has their node."""

    name: str
    pods: Mapping[str, Manifest]
    placed: Mapping[str, str]
    promised: Mapping[str, str]
    size: int
    least: int

    @property
    def nodes(self) -> dict[str, str]:
        """The node of each pod that has its room: let in, or promised to it."""
        return {**self.placed, **self.promised}

    @property
    def waiting(self) -> list[str]:
        """The pods that nobody has decided about."""
        return [name for name in self.pods if name not in self.placed and name not in self.promised]

    @property
    def broken(self) -> bool:
        """True if some are in, and too few are and will be for the gang to train."""
        return 0 < len(self.nodes) < self.least


def gangs(pods: Iterable[Manifest], gate: Gate, nodes: dict[str, str]) -> dict[str, Gang]:
    """The gangs by name. `nodes` has the name of each node by its sign. Pods that have ended, or are being deleted, are in none."""
    found: dict[str, dict[str, Manifest]] = {}
    for pod in pods:
        name = pod["metadata"].get("labels", {}).get(JOB)
        if name is not None and _lives(pod):
            found.setdefault(name, {})[pod["metadata"]["name"]] = pod
    return {name: _gang(name, found[name], gate, nodes) for name in sorted(found)}


def recorded(pods: Sequence[Manifest], nodes: Mapping[str, str]) -> Manifest:
    """The metadata, in a merge patch, that records the nodes of all `pods`, by name."""
    uids = {pod["metadata"]["name"]: [pod["metadata"]["uid"], nodes[pod["metadata"]["name"]]] for pod in pods}
    return {"annotations": {RECORD: msgspec.json.encode(uids).decode()}}


def _gang(name: str, pods: dict[str, Manifest], gate: Gate, nodes: dict[str, str]) -> Gang:
    pods = {each: pods[each] for each in sorted(pods)}
    placed = {each: node for each, pod in pods.items() if (node := gate.admitted(pod, nodes)) is not None}
    promised: dict[str, str] = {}
    for bearer in placed:
        record = pods[bearer]["metadata"].get("annotations", {}).get(RECORD)
        for other, (uid, node) in (msgspec.json.decode(record) if record else {}).items():
            # another pod of the same name is none that was decided about
            if other in pods and other not in placed and pods[other]["metadata"]["uid"] == uid:
                promised[other] = node
    size = max(_number(pod, SIZE, len(pods)) for pod in pods.values())
    least = min(_number(pod, LEAST, size) for pod in pods.values())
    return Gang(name, pods, placed, promised, size, least)


SIZE = "polyrhythm.dev/size"
"""The annotation with the number of pods of a gang, which need not all be there yet."""


def _number(pod: Manifest, name: str, otherwise: int) -> int:
    return int(pod["metadata"].get("annotations", {}).get(name, otherwise))


def _lives(pod: Manifest) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
