"""The jobs of a list on Kubernetes: each is a Job that is made at the beginning, and whose pods the backend lets in."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from polyrhythm.cluster import Action, Cluster, ClusterState
from polyrhythm.errors import CompositionError, RunError
from polyrhythm.launchers.kubernetes import Kubernetes
from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.continuing import token_of
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.kubernetes.api import CONFLICT, JOBS, SECRETS, SERVICES, Api, ApiAnswer
from polyrhythm.tools.scheduling.kubernetes.backend import KubernetesBackend
from polyrhythm.tools.scheduling.kubernetes.gates import SchedulingGate
from polyrhythm.tools.scheduling.kubernetes.training_pods import companions, training_pods
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings
from polyrhythm.tools.scheduling.training_jobs import TrainingJob

_LISTED_SECONDS = 30.0
_RUN = "polyrhythm.dev/run"
"""The annotation of a Job with the token of the list that it belongs to."""


class KubernetesJobs:
    """A backend whose jobs are Jobs of the cluster, in `engine`'s namespace, on those nodes that SITE names. Image, volume and Python are
    `engine`'s; what a worker needs is the job's own.

    Jobs are asked for every `interval` seconds of the settings. Those that a scheduler which was killed has made for the same list are
    taken over.
    """

    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: HostSettings, engine: Kubernetes, api: Api) -> None:
        self._cluster = cluster
        self._settings = settings
        self._namespace = engine.namespace or "default"
        self._api = api
        self._asked: float | None = None
        gate = SchedulingGate()
        hosts = frozenset(host.name for host in cluster.hosts)
        self._pods = KubernetesBackend(api, ClusterSettings(self._namespace, gate, queues=cluster.queues, hosts=hosts, site=cluster))
        self.runs = {each.job.name: CarriedJob(each) for each in jobs}
        self._made: list[str] = []
        self._wanted = {each.job.name: training_pods(each, engine, gate) for each in jobs}

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host: dead, closed to new pods, or healthy."""
        lost, closed = self._pods.view.lost, self._pods.view.closed
        words = {host.name: "dead" if (host.name, None) in lost else "cordoned" for host in self._cluster.hosts}
        return {name: word if (name, None) in lost | closed else "healthy" for name, word in words.items()}

    @property
    def agents(self) -> Mapping[str, int]:
        """None: kubelets have the workers."""
        return {}

    @property
    def over(self) -> bool:
        """True when all jobs have ended or failed."""
        return all(run.over is not None for run in self.runs.values())

    def ready(self) -> bool:
        """True when nodes and pods are known and all Jobs are there. Raises RunError where nothing is listed; CompositionError where a host
        is no node, or a Job cannot be made, after the others have been deleted."""
        if not self._pods.ready(_LISTED_SECONDS):
            raise RunError(f"The cluster has not listed its nodes and pods within {_LISTED_SECONDS:g} seconds: is the address right?")
        found = self._pods.view.cluster
        nodes = () if found is None else tuple(host.name for host in found.hosts)
        for host in self._cluster.hosts:
            if host.name not in nodes:
                raise CompositionError(f"Kubernetes has no node {host.name!r}: name the hosts of SITE as `kubectl get nodes` does.")
        try:
            for name, run in self.runs.items():
                if run.over is None and name not in self._made:
                    self._make(run.training, self._wanted[name])
        except CompositionError:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Delete the Jobs that are not over, with their pods, and follow nothing any more."""
        self._pods.close()
        for name in self._made:
            if self.runs[name].over is None:
                self._delete(name)

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state as the cluster shows it. While its server is away, nothing has changed."""
        self._pods.wait(0.0)
        try:
            if self._asked is None or now >= self._asked + self._settings.interval:
                self._asked = now
                self._look(now)
            return self._begun(self._pods.observed(state, now), now)
        except RunError:
            return state

    def carry_out(self, action: Action, now: float) -> bool:
        """Let pods in, or delete them."""
        try:
            return self._pods.carry_out(action, now)
        except RunError:
            return False

    def _make(self, each: TrainingJob, wanted: Manifest) -> None:
        """Make the Job, whose pods wait, then what they need when they start; or take one over that this list has made."""
        token, path = token_of(self._settings.out), JOBS.path(self._namespace)
        answer = self._api.ask("POST", path, {**wanted, "metadata": {**wanted["metadata"], "annotations": {_RUN: token}}})
        is_known = False
        if answer.status == CONFLICT:
            found = self._api.ask("GET", JOBS.path(self._namespace, each.job.name))
            is_known = found.taken and found.body["metadata"].get("annotations", {}).get(_RUN) == token
            answer = found if is_known else answer
        made = self._taken(wanted, answer)
        self._made.append(each.job.name)
        key, meeting = companions(each, secrets.token_hex(16), made)
        for kind, item in ((SECRETS, key), (SERVICES, meeting)):
            answer = self._api.ask("POST", kind.path(self._namespace), item)
            if not (is_known and answer.status == CONFLICT):
                self._taken(item, answer)

    def _taken(self, item: Manifest, answer: ApiAnswer) -> Manifest:
        if not answer.taken:
            raise CompositionError(f"The cluster did not take the {item['kind']} {item['metadata']['name']!r}: {answer.sentence}")
        return answer.body

    def _delete(self, name: str) -> None:
        self._api.ask("DELETE", JOBS.path(self._namespace, name), {"propagationPolicy": "Background"})

    def _begun(self, state: ClusterState, now: float) -> ClusterState:
        for name, run in self.runs.items():
            if run.begun is None and name in state.running:
                run.begun = now
        return state

    def _look(self, now: float) -> None:
        """Take in which Jobs are over. Of a crew, some may have ended while others never came: it is over when none is left that is in."""
        answer = self._api.ask("GET", JOBS.path(self._namespace))
        if not answer.taken:
            return
        found = {item["metadata"]["name"]: item.get("status", {}) for item in answer.body["items"]}
        for name, run in self.runs.items():
            if run.over is not None:
                continue
            status = found.get(name)
            if status is None:
                run.over, run.reason = "failed", "its Job was deleted"
                continue
            true = {each["type"]: each for each in status.get("conditions", []) if each["status"] == "True"}
            if "Failed" in true:
                run.over, run.reason = "failed", str(true["Failed"].get("message") or true["Failed"].get("reason") or "its Job has failed")
            elif "Complete" in true:
                run.over = "ended"
            elif run.training.job.is_malleable and status.get("succeeded", 0) and not self._is_in(name):
                run.over = "ended"
                self._delete(name)
            run.seconds = now - (now if run.begun is None else run.begun)

    def _is_in(self, name: str) -> bool:
        gang = self._pods.view.gangs.get(name)
        return gang is not None and bool(gang.places)
