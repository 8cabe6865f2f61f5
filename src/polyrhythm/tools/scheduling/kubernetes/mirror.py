"""A copy of what the API server has of one kind of objects, by its list and the events since then. Pure: `watching` feeds it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polyrhythm.launchers.manifest import Manifest


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object before and after a change: None where it was not there."""

    before: Manifest | None
    after: Manifest | None


class ObjectMirror:
    """Objects by namespace and name. A change that is older than what is known of an object is none.

    Versions are compared as numbers, within one kind, as Kubernetes allows since 1.35 and every version before has had them.
    """

    def __init__(self) -> None:
        self._objects: dict[str, Manifest] = {}

    @property
    def objects(self) -> list[Manifest]:
        """All that there are, by name."""
        return [self._objects[name] for name in sorted(self._objects)]

    def get(self, namespace: str, name: str) -> Manifest | None:
        """The object of that name, if it is there."""
        return self._objects.get(f"{namespace}/{name}")

    def replace(self, items: Iterable[Manifest]) -> list[ObjectChange]:
        """Take a whole list, after a gap: what differs from what was known."""
        before, self._objects = self._objects, {named(item): item for item in items}
        changed = [ObjectChange(before.get(name), item) for name, item in self._objects.items() if _differs(before.get(name), item)]
        return [*changed, *(ObjectChange(item, None) for name, item in before.items() if name not in self._objects)]

    def take(self, kind: str, item: Manifest) -> list[ObjectChange]:
        """Take an event: "ADDED", "MODIFIED" or "DELETED"; or the answer to a write of our own as "MODIFIED"."""
        name = named(item)
        before = self._objects.get(name)
        if before is not None and version(item) < version(before):
            return []  # an echo of what was there before our own write
        if kind == "DELETED":
            self._objects.pop(name, None)
            return [] if before is None else [ObjectChange(before, None)]
        self._objects[name] = item
        return [ObjectChange(before, item)] if _differs(before, item) else []


def named(item: Manifest) -> str:
    """The namespace and the name."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def version(item: Manifest) -> int:
    """The resourceVersion as a number."""
    return int(item["metadata"].get("resourceVersion", 0))


def _differs(before: Manifest | None, after: Manifest) -> bool:
    return before is None or before["metadata"].get("resourceVersion") != after["metadata"].get("resourceVersion")
