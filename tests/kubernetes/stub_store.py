"""What an API server keeps and refuses, as far as the scheduler relies on it. `test_differential.py` compares it with a real one.

Objects are checked against the published schemas of 1.37; versions, conflicts, preconditions, gates and bindings follow the documentation.
"""

from __future__ import annotations

import copy
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from schemas import problem

Item = dict[str, Any]

KINDS = {
    "nodes": ("/api/v1", "Node", False),
    "namespaces": ("/api/v1", "Namespace", False),
    "pods": ("/api/v1", "Pod", True),
    "leases": ("/apis/coordination.k8s.io/v1", "Lease", True),
    "secrets": ("/api/v1", "Secret", True),
    "services": ("/api/v1", "Service", True),
    "jobs": ("/apis/batch/v1", "Job", True),
    "resourceslices": ("/apis/resource.k8s.io/v1", "ResourceSlice", False),
}
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Refused(Exception):
    """A request that is not carried out."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason, "message": message}
        self.status = status


class StubFollower:
    """A thread that calls `look` after each change of a store, which nobody changes meanwhile."""

    def __init__(self, store: StubStore, look: Callable[[], None]) -> None:
        self._store, self._look = store, look
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Wait for its end; the store is over."""
        self._thread.join()

    def _run(self) -> None:
        seen = 0
        while not self._store.over:
            with self._store.changed:
                if self._store.version == seen:
                    self._store.changed.wait(0.2)
                    continue
                seen = self._store.version
                self._look()


class StubStore:
    """Objects of all kinds, one counter of versions, and all events since the last compaction."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.objects: dict[tuple[str, str, str], Item] = {}
        self.events: list[tuple[int, str, str, Item]] = []
        self.version, self.oldest = 1, 0
        self.over = False

    def create(self, plural: str, namespace: str, item: Item) -> Item:
        """A new object."""
        with self.changed:
            item = copy.deepcopy(item)
            metadata = item.setdefault("metadata", {})
            if "generateName" in metadata and "name" not in metadata:
                metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
            if namespace:
                metadata["namespace"] = namespace
            _valid(plural, item)
            key = (plural, namespace, metadata["name"])
            if key in self.objects:
                raise Refused(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
            metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
            if plural == "pods":
                item["status"] = {"phase": "Pending"}
            if plural == "nodes":
                item.setdefault("spec", {}).setdefault("taints", []).append(dict(_NOT_READY))
                item.setdefault("status", {})
            return self._write("ADDED", key, item)

    def get(self, plural: str, namespace: str, name: str) -> Item:
        """The newest version of an object."""
        with self.changed:
            found = self.objects.get((plural, namespace, name))
            if found is None:
                raise Refused(404, "NotFound", f'{plural} "{name}" not found')
            return found

    def listed(self, plural: str, namespace: str, selector: str = "") -> Item:
        """All objects of a kind, and the version at which they are that."""
        root, kind, _ = KINDS[plural]
        with self.changed:
            chosen = [item for (each, where, _), item in self.objects.items() if each == plural and namespace in ("", where)]
            items = [item for item in chosen if matches(item, selector)]
            version = root.removeprefix("/apis/").removeprefix("/api/")
            return {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": str(self.version)}, "items": items}

    def replace(self, plural: str, namespace: str, name: str, item: Item) -> Item:
        """PUT: all but what the server keeps."""
        with self.changed:
            before = self.get(plural, namespace, name)
            _current(before, item)
            item = copy.deepcopy(item)
            item["metadata"] = {**item["metadata"], "uid": before["metadata"]["uid"], "namespace": namespace}
            return self._changed(plural, before, item)

    def patch(self, plural: str, namespace: str, name: str, patch: Item, part: str = "") -> Item:
        """A merge patch; of the status alone if `part` is "status", else of all but that."""
        with self.changed:
            before = self.get(plural, namespace, name)
            _current(before, patch)
            item = _merged(before, patch)
            if plural in ("pods", "nodes"):
                kept = "spec" if part == "status" else "status"
                item[kept] = before.get(kept, {})
            item["metadata"] |= {each: before["metadata"][each] for each in ("name", "uid", "creationTimestamp")}
            return self._changed(plural, before, item)

    def bind(self, namespace: str, name: str, binding: Item) -> None:
        """Bind a pod to a node, once."""
        with self.changed:
            pod = copy.deepcopy(self.get("pods", namespace, name))
            if pod["spec"].get("schedulingGates"):
                raise Refused(409, "Conflict", f"pod {name} has non-empty .spec.schedulingGates")
            if pod["spec"].get("nodeName"):
                raise Refused(409, "Conflict", f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
            if pod["metadata"].get("deletionTimestamp"):
                raise Refused(409, "Conflict", f"pod {name} is being deleted, cannot be assigned to a host")
            pod["spec"]["nodeName"] = binding["target"]["name"]
            pod["status"].setdefault("conditions", []).append({"type": "PodScheduled", "status": "True"})
            self._write("MODIFIED", ("pods", namespace, name), pod)

    def delete(self, plural: str, namespace: str, name: str, options: Item) -> Item:
        """Delete an object; a pod on a node goes when its kubelet says so, which is a deletion with no grace."""
        with self.changed:
            item = copy.deepcopy(self.get(plural, namespace, name))
            wanted = options.get("preconditions", {})
            for field, kept in (("uid", "uid"), ("resourceVersion", "resourceVersion")):
                if field in wanted and wanted[field] != item["metadata"][kept]:
                    raise Refused(409, "Conflict", f"Precondition failed: {field} in precondition: {wanted[field]}")
            if plural == "pods" and item["spec"].get("nodeName") and options.get("gracePeriodSeconds") != 0:
                item["metadata"]["deletionTimestamp"] = _now()
                return self._write("MODIFIED", (plural, namespace, name), item)
            del self.objects[plural, namespace, name]
            return self._write("DELETED", (plural, namespace, name), item)

    def compact(self) -> None:
        """Forget all events."""
        with self.changed:
            self.oldest, self.events = self.version, []

    def watch(self, plural: str, namespace: str, version: int, selector: str, seconds: float) -> Iterator[Item]:
        """The events after `version`, as they come."""
        deadline = time.monotonic() + seconds
        while not self.over and time.monotonic() < deadline:
            with self.changed:
                if version < self.oldest:
                    raise Refused(410, "Expired", f"too old resource version: {version} ({self.oldest})")
                new = [event for event in self._since(version) if event[2] == plural]
                version = self.version
                if not new:
                    self.changed.wait(0.5)
            for _, kind, _, item in new:
                if namespace in ("", item["metadata"].get("namespace")) and matches(item, selector):
                    yield {"type": kind, "object": item}

    def _since(self, version: int) -> list[tuple[int, str, str, Item]]:
        place = len(self.events)
        while place and self.events[place - 1][0] > version:
            place -= 1
        return self.events[place:]

    def _changed(self, plural: str, before: Item, item: Item) -> Item:
        _valid(plural, item)
        if plural == "pods":
            _immutable(before, item)
        metadata = {each: value for each, value in item["metadata"].items() if each != "resourceVersion"}
        if {**item, "metadata": metadata} == {**before, "metadata": {**before["metadata"], "resourceVersion": None}}:
            return before
        return self._write("MODIFIED", (plural, before["metadata"].get("namespace", ""), before["metadata"]["name"]), item)

    def _write(self, kind: str, key: tuple[str, str, str], item: Item) -> Item:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self.objects[key] = item
        self.events.append((self.version, kind, key[0], item))
        self.changed.notify_all()
        return item


def matches(item: Item, selector: str) -> bool:
    """True if the labels are those of the selector: `a=b,c` (c is there)."""
    labels = item["metadata"].get("labels", {})
    terms = [each.partition("=") for each in selector.split(",") if each]
    return all(labels.get(name) == value if equals else name in labels for name, equals, value in terms)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _valid(plural: str, item: Item) -> None:
    said = problem({**item, "kind": KINDS[plural][1]} if "kind" not in item else item)
    if said:
        raise Refused(422, "Invalid", said)
    for container in item.get("spec", {}).get("containers", []):
        for name, amount in container.get("resources", {}).get("limits", {}).items():
            if "/" in name and not str(amount).isdigit():
                raise Refused(422, "Invalid", f"{name}: {amount} must be an integer")


def _current(before: Item, change: Item) -> None:
    given = change.get("metadata", {}).get("resourceVersion")
    if given is not None and given != before["metadata"]["resourceVersion"]:
        raise Refused(409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again")
    if change.get("metadata", {}).get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
        raise Refused(409, "Conflict", "Precondition failed: UID in precondition")


def _immutable(before: Item, after: Item) -> None:
    """Of a pod's spec only gates may be taken away, tolerations added, and the node selector narrowed while there is a gate."""
    old, new = dict(before["spec"]), dict(after["spec"])
    gates, left = (each.pop("schedulingGates", None) or [] for each in (old, new))
    tolerated, now = (each.pop("tolerations", None) or [] for each in (old, new))
    chosen, narrowed = (each.pop("nodeSelector", None) or {} for each in (old, new))
    fine = all(gate in gates for gate in left) and all(each in now for each in tolerated)
    fine = fine and (chosen == narrowed or (bool(gates) and chosen.items() <= narrowed.items()))
    if not fine or old != new:
        raise Refused(422, "Invalid", f'Pod "{before["metadata"]["name"]}" is invalid: spec: Forbidden: pod updates may not change fields')


def _merged(before: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return copy.deepcopy(result)
