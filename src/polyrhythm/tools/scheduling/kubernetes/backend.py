"""The backend over Kubernetes: it follows pods and nodes, and carries decisions out by letting pods in and deleting them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from polyrhythm.cluster import Action, ClusterState, EvictJob, JobPlacement, JobRecord, PlaceJob, ResizeJob, WorkerSlot
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.errors import RunError
from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.api import CONFLICT, NODES, PODS, SLICES, Api, ObjectKind
from polyrhythm.tools.scheduling.kubernetes.gangs import Gang, Place, meant, recorded
from polyrhythm.tools.scheduling.kubernetes.mirror import ObjectMirror
from polyrhythm.tools.scheduling.kubernetes.reconcile import reconciled
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings, ClusterView, cluster_view
from polyrhythm.tools.scheduling.kubernetes.watching import LISTED, Heard, Watching

_ABSENT_SECONDS = 600.0
_TRIES = 5
_AT_ONCE = 4
"""Gangs that are let in beside each other."""


@dataclass(slots=True)
class _Memory:
    """The memory of this process, which may be lost: since when each pod has been let in, and the records of jobs without pods."""

    let_in: dict[str, float] = field(default_factory=dict)
    absent: dict[str, JobRecord] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)


class KubernetesBackend:
    """Pods of a namespace on the nodes of a cluster. All that it decides stands in the pods, so that another process can continue.

    `observed` first finishes what a scheduler before this one had begun, and takes back what kube-scheduler does not bind. Gangs are let in
    beside each other, and the next round begins when that is over: it sees those that others have changed meanwhile as they are.
    """

    def __init__(self, api: Api, settings: ClusterSettings) -> None:
        self._api = api
        self._settings = settings
        self._heard: Heard = SimpleQueue()
        kinds = [PODS, NODES, *([SLICES] if api.ask("GET", SLICES.path("")).taken else [])]
        self._mirrors: dict[ObjectKind, ObjectMirror] = {kind: ObjectMirror() for kind in (PODS, NODES, SLICES)}
        self._unlisted = set(kinds)
        self._watches = [Watching(api, kind, "", self._heard) for kind in kinds]
        self._memory = _Memory()
        self._view: ClusterView | None = None
        self._is_stale = True
        self._letting = ThreadPoolExecutor(_AT_ONCE, "polyrhythm pods")
        self._let: list[Future[list[Manifest | None]]] = []
        for watch in self._watches:
            watch.start()

    @property
    def view(self) -> ClusterView:
        """The cluster as it is known now."""
        if self._view is None or self._is_stale:
            kinds = self._mirrors
            self._view = cluster_view(kinds[NODES].objects, kinds[PODS].objects, kinds[SLICES].objects, self._settings)
            self._is_stale = False
        return self._view

    def wait(self, seconds: float) -> bool:
        """Wait until something has happened, for so many seconds at most; then take in all that has. True if anything has."""
        self._settle()  # an event that comes after our own change must find it
        try:
            self._take(*self._heard.get(timeout=seconds))
        except Empty:
            return False
        while not self._heard.empty():
            self._take(*self._heard.get())
        self._is_stale = True
        return True

    def ready(self, seconds: float) -> bool:
        """Wait until everything has been listed once."""
        deadline = time.monotonic() + seconds
        while self._unlisted and time.monotonic() < deadline:
            self.wait(0.1)
        return not self._unlisted

    def close(self) -> None:
        """Follow nothing any more."""
        self._letting.shutdown()
        for watch in self._watches:
            watch.close()

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state as the cluster shows it, after what was begun is finished."""
        self._settle()
        self._prepare_nodes()
        for gang in list(self.view.gangs.values()):
            self._finish(gang, now)
        self._take_back(now)
        for name in [name for name in state.jobs if name not in self.view.jobs]:
            self._memory.absent[name], self._memory.since[name] = state.jobs[name].paused(now), now
        shown = reconciled(state, self.view, self._memory.absent, now)
        for name in [name for name, since in self._memory.since.items() if name in shown.jobs or now - since > _ABSENT_SECONDS]:
            del self._memory.absent[name], self._memory.since[name]
        return shown

    def carry_out(self, action: Action, now: float) -> bool:
        """Let pods in, or delete them. A gang that does not have its pods yet, or that another has changed, is left to the next round."""
        # of the view that was decided upon: that of a thousand gangs is not made anew for each
        gang = None if self._view is None else self._view.gangs.get(action.job)
        if gang is None:
            return False
        match action:
            case PlaceJob(placement):
                if gang.places or len(gang.waiting) < len(placement.slots):
                    return False
                self._let.append(self._letting.submit(self._placed, gang, placement))
                return True
            case ResizeJob(placement, _):
                return self._resized(gang, placement, now)
            case EvictJob():
                return gang.is_replaced and self._deleted([gang.pods[name] for name in gang.places])
        return False

    def _settle(self) -> None:
        """Wait for the gangs that are being let in, and take in what has become of their pods. Where the server is away, those that have
        not begun are left to the next round, and what has become of the others is told by the watch."""
        let, self._let = self._let, []
        for each in let:
            try:
                pods = each.result()
            except RunError:
                for other in let:
                    other.cancel()
            except CancelledError:
                continue
            else:
                for pod in pods:
                    self._take_let(pod, time.monotonic())

    def _placed(self, gang: Gang, placement: JobPlacement) -> list[Manifest | None]:
        """Let the first in with the record of all, which decides; then the others, which the record promises their places."""
        chosen = dict(zip(gang.waiting, placement.slots, strict=False))
        places: dict[str, Place] = {name: (slot.host, slot.devices) for name, slot in chosen.items()}
        pods = [gang.pods[name] for name in chosen]
        seen = [self._let_in(pods[0], placement.slots[0], recorded(pods, places) if len(pods) > 1 else {})]
        if seen[0] is not None and not self._settings.gate.waits(seen[0]):
            seen += [self._let_in(pod, slot, {}, _TRIES) for pod, slot in zip(pods[1:], placement.slots[1:], strict=True)]
        return seen

    def _resized(self, gang: Gang, placement: JobPlacement, now: float) -> bool:
        """Delete the pods that are in no slot of the new placement, then let more in."""
        left = list(placement.slots)
        gone = []
        for name, (node, devices) in gang.places.items():
            slot = next((each for each in left if each.host == node and (devices is None or each.devices == devices)), None)
            if slot is None:
                gone.append(gang.pods[name])
            else:
                left.remove(slot)
        if len(gang.waiting) < len(left) or not self._deleted(gone):
            return False
        more = list(zip(gang.waiting, left, strict=False))
        done = [self._take_let(self._let_in(gang.pods[name], slot, {}), now) for name, slot in more]
        return all(done)

    def _let_in(self, pod: Manifest, slot: WorkerSlot, record: Mapping[str, str], tries: int = 1) -> Manifest | None:
        """Let a pod onto its node: the pod as it is then, None where it is not known. Where another has changed it meanwhile, it is looked
        at again, and let in if it still waits. Only asks, in any thread."""
        path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"])
        node = self._mirrors[NODES].get("", slot.host)
        for _ in range(tries if node is not None else 0):
            annotations = {**meant(slot.devices), **record}
            metadata = {"resourceVersion": pod["metadata"]["resourceVersion"], "uid": pod["metadata"]["uid"], "annotations": annotations}
            assert node is not None
            answer = self._api.ask("PATCH", path, {"metadata": metadata, "spec": self._settings.gate.admission(pod, node)})
            if answer.taken:
                return answer.body
            again = self._api.ask("GET", path) if answer.status == CONFLICT else answer
            if not again.taken or again.body["metadata"]["uid"] != pod["metadata"]["uid"]:
                return None
            pod = again.body
            if not self._settings.gate.waits(pod):
                return pod
        return None

    def _take_let(self, pod: Manifest | None, now: float) -> bool:
        """Take in a pod that was to be let in; False if it was not."""
        if pod is None:
            return False
        self._assume(pod)
        if self._settings.gate.waits(pod):
            return False
        self._memory.let_in.setdefault(pod["metadata"]["uid"], now)
        return True

    def _deleted(self, pods: Sequence[Manifest]) -> bool:
        """Delete these very pods: others of their names stay."""
        for pod in pods:
            path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"])
            answer = self._api.ask("DELETE", path, {"preconditions": {"uid": pod["metadata"]["uid"]}})
            if not answer.taken and answer.status not in (404, CONFLICT):
                notify(f"The pod {pod['metadata']['name']} is not deleted: {answer.sentence}")
                return False
            gone = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "now"}}
            self._assume(gone)
        return True

    def _finish(self, gang: Gang, now: float) -> None:
        """Let those in that have the promise of a place, as after a scheduler that ended between two pods."""
        for name, (node, devices) in gang.promised.items():
            self._take_let(self._let_in(gang.pods[name], WorkerSlot(node, devices or ()), {}), now)

    def _take_back(self, now: float) -> None:
        """Delete pods that were let in and are not bound, and those on nodes that are not there any more, if others are made for them."""
        view, alive, late = self.view, set(), []
        for gang in view.gangs.values():
            for name in gang.placed:
                pod = gang.pods[name]
                if pod["spec"].get("nodeName"):
                    continue
                uid = pod["metadata"]["uid"]
                alive.add(uid)
                if now - self._memory.let_in.setdefault(uid, now) > self._settings.forget and gang.is_replaced:
                    late.append(pod)
        self._memory.let_in = {uid: since for uid, since in self._memory.let_in.items() if uid in alive}
        strays = [pod for pod in view.strays if any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences", []))]
        if late or strays:
            self._deleted([*late, *strays])

    def _prepare_nodes(self) -> None:
        for node in self._mirrors[NODES].objects:
            patch = self._settings.gate.preparation(node)
            if patch is not None:
                metadata = {**patch.get("metadata", {}), "resourceVersion": node["metadata"]["resourceVersion"]}
                answer = self._api.ask("PATCH", NODES.path("", node["metadata"]["name"]), {**patch, "metadata": metadata})
                if answer.taken:
                    self._mirrors[NODES].take("MODIFIED", answer.body)
                    self._is_stale = True

    def _assume(self, pod: Manifest) -> None:
        self._mirrors[PODS].take("MODIFIED", pod)
        self._is_stale = True

    def _take(self, kind: ObjectKind, what: str, item: Manifest) -> None:
        named = self._settings.hosts if kind is NODES else frozenset()
        if what == LISTED:
            self._unlisted.discard(kind)
            self._mirrors[kind].replace([each for each in item["items"] if not named or each["metadata"]["name"] in named])
        elif not named or item["metadata"]["name"] in named:
            self._mirrors[kind].take(what, item)
