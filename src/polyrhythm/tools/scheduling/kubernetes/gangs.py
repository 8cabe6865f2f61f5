"""Gangs of pods: who is let in where, as the cluster itself has it, so that a scheduler which begins anew knows what the last one decided.

Kubernetes changes one object at a time, and a gang is several. So the change that lets the first pod in also records on it where all others
go (an annotation): before it nobody is in, and after it the whole gang has its room, no matter who carries out the rest. A pod's own gate
says where it was let in, and the record where those go that still wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from polyrhythm.launchers.manifest import INDEX, Manifest
from polyrhythm.tools.scheduling.kubernetes.gates import Gate
from polyrhythm.tools.scheduling.kubernetes.remembering import Remembering

JOB = "polyrhythm.dev/job"
"""The label of all pods of a gang."""
LEAST = "polyrhythm.dev/least"
"""The annotation with the least number of pods that a gang trains with; without it all are needed."""
SIZE = "polyrhythm.dev/size"
"""The annotation with the number of pods of a gang, which need not all be there yet."""
DEVICES = "polyrhythm.dev/devices"
"""The annotation with the numbers of the devices that are meant for a pod."""
RECORD = "polyrhythm.dev/gang"
"""The annotation with the places of all pods, on the first that was let in."""

_MOST, _MOST_DEVICES = 100_000, 1024
"""Greater numbers in notes on pods are mistakes."""

Place = tuple[str, tuple[int, ...] | None]
"""A node, and the numbers of the devices there that were meant for a pod: the kubelet may give it others. None where nobody has said."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods of one gang by name, the places of those that are let in (`placed`), and those that wait though a record has their place.

    `ended` is how many have ended well.
    """

    name: str
    pods: Mapping[str, Manifest]
    placed: Mapping[str, Place]
    promised: Mapping[str, Place]
    size: int
    least: int
    ended: int = 0

    @property
    def places(self) -> dict[str, Place]:
        """The place of each pod that has its room: let in, or promised to it."""
        return {**self.placed, **self.promised}

    @property
    def waiting(self) -> list[str]:
        """The pods that nobody has decided about."""
        return [name for name in self.pods if name not in self.placed and name not in self.promised]

    @property
    def broken(self) -> bool:
        """True if some are in, and too few are and will be for the gang to train."""
        return 0 < len(self.places) < self.least

    @property
    def is_replaced(self) -> bool:
        """True if a controller, such as a Job, makes a new pod for each that is deleted."""
        return all(any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences", [])) for pod in self.pods.values())


def gangs(pods: Iterable[Manifest], gate: Gate, nodes: Mapping[str, str]) -> dict[str, Gang]:
    """The gangs by name. `nodes` has the name of each node by its sign. Pods that have ended, or are being deleted, are in none."""
    found: dict[str, dict[str, Manifest]] = {}
    ended: Counter[str] = Counter()
    for pod in pods:
        name = pod["metadata"].get("labels", {}).get(JOB)
        if name is not None and pod.get("status", {}).get("phase") == "Succeeded":
            ended[name] += 1
        elif name is not None and _lives(pod):
            found.setdefault(name, {})[pod["metadata"]["name"]] = pod
    return {name: _GANGS.of(name, name, ended[name], gate, nodes, *found[name].values()) for name in sorted(found)}


def recorded(pods: Sequence[Manifest], places: Mapping[str, Place]) -> Manifest:
    """The annotation that records the places of all `pods`, by name."""
    uids = {pod["metadata"]["name"]: [pod["metadata"]["uid"], *places[pod["metadata"]["name"]]] for pod in pods}
    return {RECORD: msgspec.json.encode(uids).decode()}


def meant(devices: Sequence[int] | None) -> Manifest:
    """The annotation with the devices that are meant for a pod."""
    return {DEVICES: ",".join(str(device) for device in devices or ())}


def _gang(name: str, ended: int, gate: Gate, nodes: Mapping[str, str], *members: Manifest) -> Gang:
    ordered = sorted((int(_annotation(pod, INDEX) or 0), pod["metadata"]["name"], number) for number, pod in enumerate(members))
    pods = {each: members[number] for _, each, number in ordered}
    placed = {each: (node, _devices(pod)) for each, pod in pods.items() if (node := _node(pod, gate, nodes)) is not None}
    promised: dict[str, Place] = {}
    for bearer in placed:
        for other, (uid, node, devices) in _record(_annotation(pods[bearer], RECORD)).items():
            # another pod of the same name is none that was decided about
            if other in pods and other not in placed and pods[other]["metadata"]["uid"] == uid:
                promised[other] = (node, devices)
    size = max(int(_annotation(pod, SIZE) or len(pods) + ended) for pod in pods.values())
    least = min(int(_annotation(pod, LEAST) or size) for pod in pods.values())
    return Gang(name, pods, placed, promised, max(len(placed), size - ended, 1), max(1, least - ended), ended)


_GANGS = Remembering(_gang)


def malformed(pod: Manifest) -> str | None:
    """What is wrong with the notes on a pod, which anybody can write; None where nothing is."""
    for name in (INDEX, SIZE, LEAST):
        given = _annotation(pod, name)
        if given is not None and not (given.isdecimal() and int(given) <= _MOST):
            return f"the annotation {name} of the pod {pod['metadata']['name']} is {given!r}: give a number from 0 to {_MOST}"
    devices, record = _annotation(pod, DEVICES), _annotation(pod, RECORD)
    if devices and not all(each.isdecimal() and int(each) < _MOST_DEVICES for each in devices.split(",") if each):
        return (
            f"the annotation {DEVICES} of the pod {pod['metadata']['name']} is {devices!r}: give numbers below {_MOST_DEVICES}, with commas"
        )
    try:
        _record(record)
    except msgspec.MsgspecError as problem:
        return f"the annotation {RECORD} of the pod {pod['metadata']['name']} cannot be read: {problem}"
    return None


def _record(text: str | None) -> dict[str, tuple[str, str, tuple[int, ...] | None]]:
    """The uid, node and devices of each pod of a gang, by name."""
    return msgspec.json.decode(text, type=dict[str, tuple[str, str, tuple[int, ...] | None]]) if text else {}


def is_stray(pod: Manifest, gate: Gate, nodes: Mapping[str, str]) -> bool:
    """True if a pod was let onto a node that is not there any more."""
    return _lives(pod) and not gate.waits(pod) and _node(pod, gate, nodes) is None


def _node(pod: Manifest, gate: Gate, nodes: Mapping[str, str]) -> str | None:
    """The node to which the pod is bound, or onto which it was let in."""
    bound = pod["spec"].get("nodeName")
    if bound:
        return bound if bound in nodes.values() else None
    return gate.admitted(pod, nodes)


def _devices(pod: Manifest) -> tuple[int, ...] | None:
    given = _annotation(pod, DEVICES)
    return None if given is None else tuple(int(each) for each in given.split(",") if each)


def _lives(pod: Manifest) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _annotation(pod: Manifest, name: str) -> str | None:
    found = pod["metadata"].get("annotations", {}).get(name)
    return None if found is None else str(found)
