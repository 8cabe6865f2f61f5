"""Gates: a pod waits behind one until somebody has decided on which node it may run. A pod that is let in is not bound: kube-scheduler does
that, after it has checked all else, so that a decision from an old state leaves a pod waiting and never on a node that has no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from polyrhythm.launchers.manifest import Manifest

KEY = "polyrhythm.dev/placement"
"""The name of the scheduling gate, and the key of the taint."""
HOSTNAME = "kubernetes.io/hostname"
_LONGEST_VALUE = 63
_PREPARED = "prepared"


class Gate(Protocol):
    """A way to make pods wait for a node."""

    def closed(self, spec: Manifest) -> Manifest:
        """The spec of a pod that waits."""

    def waits(self, pod: Manifest) -> bool:
        """True if the pod waits for a decision."""

    def admission(self, pod: Manifest, node: Manifest) -> Manifest:
        """The merge patch of a pod's spec that lets it onto the node, and onto no other."""

    def admitted(self, pod: Manifest, nodes: Mapping[str, str]) -> str | None:
        """The name of the node that the pod was let onto, of those whose `sign` is a key of `nodes`."""

    def sign(self, node: Manifest) -> str:
        """The name of a node as pods have it that were let onto it."""

    def preparation(self, node: Manifest) -> Manifest | None:
        """The merge patch of a node before pods can be let onto it; None where it has all."""


@dataclass(frozen=True, slots=True)
class SchedulingGate:
    """A scheduling gate (Kubernetes 1.27), whose removal comes with a node selector, as Kueue's topology-aware scheduling does it."""

    name: str = KEY

    def closed(self, spec: Manifest) -> Manifest:
        """The spec with the gate."""
        return {**spec, "schedulingGates": [*spec.get("schedulingGates", []), {"name": self.name}]}

    def waits(self, pod: Manifest) -> bool:
        """True if it has the gate."""
        return any(gate["name"] == self.name for gate in pod["spec"].get("schedulingGates", []))

    def admission(self, pod: Manifest, node: Manifest) -> Manifest:
        """The gates of others stay."""
        others = [gate for gate in pod["spec"].get("schedulingGates", []) if gate["name"] != self.name]
        return {"schedulingGates": others, "nodeSelector": {**pod["spec"].get("nodeSelector", {}), HOSTNAME: self.sign(node)}}

    def admitted(self, pod: Manifest, nodes: Mapping[str, str]) -> str | None:
        """The node of its selector."""
        return None if self.waits(pod) else nodes.get(pod["spec"].get("nodeSelector", {}).get(HOSTNAME, ""))

    def sign(self, node: Manifest) -> str:
        """The label with its host's name, which need not be the node's."""
        return str(node["metadata"].get("labels", {}).get(HOSTNAME, node["metadata"]["name"]))

    def preparation(self, node: Manifest) -> None:
        """Nodes need nothing."""


@dataclass(frozen=True, slots=True)
class TaintGate:
    """A taint on each node with the node's own name, which pods tolerate when they are let onto it: of a pod that exists, older versions
    of Kubernetes take no other change that says where it may run. Pods of others, without the toleration, cannot come to these nodes.
    A label that comes with the taint, in one change, keeps pods off nodes that have neither yet.
    """

    key: str = KEY

    def closed(self, spec: Manifest) -> Manifest:
        """The spec with a selector of prepared nodes, none of which it tolerates."""
        return {**spec, "nodeSelector": {**spec.get("nodeSelector", {}), self.key: _PREPARED}}

    def waits(self, pod: Manifest) -> bool:
        """True if it tolerates no node yet."""
        return self._tolerated(pod) is None and not pod["spec"].get("nodeName")

    def admission(self, pod: Manifest, node: Manifest) -> Manifest:
        """One more toleration."""
        own = {"key": self.key, "operator": "Equal", "value": self.sign(node), "effect": "NoSchedule"}
        return {"tolerations": [*pod["spec"].get("tolerations", []), own]}

    def admitted(self, pod: Manifest, nodes: Mapping[str, str]) -> str | None:
        """The node whose taint it tolerates."""
        return nodes.get(self._tolerated(pod) or "")

    def sign(self, node: Manifest) -> str:
        """The name; of one that is longer than a taint's value may be, a digest."""
        name = str(node["metadata"]["name"])
        return name if len(name) <= _LONGEST_VALUE else sha256(name.encode()).hexdigest()[:_LONGEST_VALUE]

    def preparation(self, node: Manifest) -> Manifest | None:
        """The taint and the label."""
        taints = [taint for taint in node["spec"].get("taints", []) if taint["key"] != self.key]
        if len(taints) < len(node["spec"].get("taints", [])) and self.key in node["metadata"].get("labels", {}):
            return None
        own = {"key": self.key, "value": self.sign(node), "effect": "NoSchedule"}
        return {"metadata": {"labels": {self.key: _PREPARED}}, "spec": {"taints": [*taints, own]}}

    def _tolerated(self, pod: Manifest) -> str | None:
        found = (each for each in pod["spec"].get("tolerations", []) if each.get("key") == self.key)
        return next((str(each["value"]) for each in found), None)
