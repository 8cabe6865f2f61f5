"""A scheduler of a Kubernetes cluster: while it holds the lease it observes, decides and carries out, after each change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from polyrhythm.cluster import ClusterState, SchedulerConfig
from polyrhythm.errors import RunError
from polyrhythm.tools.scheduling.backend import SchedulerRound, schedule_once
from polyrhythm.tools.scheduling.kubernetes.api import Api
from polyrhythm.tools.scheduling.kubernetes.backend import KubernetesBackend
from polyrhythm.tools.scheduling.kubernetes.lease import LeaseClaim, LeaseTerms, claimed, released
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings

_LOOK_SECONDS = 1.0
_LISTED_SECONDS = 30.0
_GATHER_SECONDS = 0.02
"""Changes that come together are decided about together; the longer, the longer a round takes."""
_MOST_GATHER_SECONDS = 0.2


@dataclass(slots=True)
class KubernetesScheduler:
    """One of the schedulers of a cluster: those that do not hold the lease follow, and take over when it ends."""

    api: Api
    settings: ClusterSettings
    config: SchedulerConfig
    holder: str
    terms: LeaseTerms | None = None
    claim: LeaseClaim = field(default_factory=LeaseClaim)
    state: ClusterState | None = None

    def run(self, over: Callable[[], bool], told: Callable[[SchedulerRound], None]) -> None:
        """Schedule until it is `over`; each round is `told`. Raises RunError if the cluster cannot be listed at the beginning."""
        backend = KubernetesBackend(self.api, self.settings)
        try:
            if not backend.ready(_LISTED_SECONDS):
                raise RunError(f"The cluster has not listed its nodes and pods within {_LISTED_SECONDS:g} seconds: is the address right?")
            while not over():
                began = time.monotonic()
                self._round(backend, told)
                spent = time.monotonic() - began
                backend.wait(_LOOK_SECONDS)
                time.sleep(max(_GATHER_SECONDS, min(_MOST_GATHER_SECONDS, spent / 2)))
                backend.wait(0.0)
        finally:
            backend.close()
            if self.terms is not None:
                released(self.api, self.terms, self.holder)

    def _round(self, backend: KubernetesBackend, told: Callable[[SchedulerRound], None]) -> None:
        now = time.monotonic()
        try:
            if self.terms is not None:
                self.claim = claimed(self.api, self.terms, self.holder, self.claim, now)
                if not self.claim.holds(self.terms, time.monotonic()):
                    return
            if backend.view.cluster is None:
                return
            state = self.state or ClusterState(backend.view.cluster)
            done = schedule_once(backend, state, now, self.config)
        except RunError:  # the server is away: what was decided and not done is decided again when it is there
            return
        self.state = done.state
        told(replace(done, pending={**backend.view.refused, **done.pending}))
