"""The entrance of a simulated site: admission by session, and the choice of a machine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.routing import Destination, RequestRouter
from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.session_buckets import SessionBuckets
from polyrhythm.serving.simulation.virtual_machine import VirtualServer
from polyrhythm.serving.token_bucket import AdmissionRule


class RequestEntrance:
    """Buckets and credits of all sessions under a plan."""

    def __init__(self, router: RequestRouter, admission: AdmissionRule, draws: np.random.Generator) -> None:
        self._router, self._draws = router, draws
        self._buckets = SessionBuckets(admission)
        self._credits: dict[str, Mapping[str, float]] = {}
        self._routes: Mapping[str, tuple[tuple[str, float], ...]] = {}

    def follow(self, plan: ServingPlan, admitted: ServingPlan, now: float) -> None:
        """Use the routes of another plan, and the buckets of `admitted`, which keep their tokens as far as the new ones hold them."""
        self._routes = plan.routes
        self._buckets.follow(admitted, now)

    def admit(self, session: str, now: float) -> float:
        """The seconds after which a request may come again; 0 where it is admitted."""
        return self._buckets.admit(session, now)

    def route(self, request: InferenceRequest, servers: Mapping[str, VirtualServer], now: float) -> VirtualServer | None:
        """The machine for a request; None where no machine serves its session."""
        destinations = []
        for machine, weight in self._routes.get(request.session, ()):
            server = servers[machine]
            slot = server.queue.plan.slot(request.session)
            if slot is not None:
                seconds = max(0.0, server.busy_until - now) + server.queue.seconds()
                queued = len(server.queue) + server.running
                destinations.append(Destination(machine, weight, queued, seconds, slot.seconds, slot.seconds / slot.batch))
        if not destinations:
            return None
        routed = self._router.route(destinations, self._credits.get(request.session, {}), request.deadline - now, self._draws)
        self._credits[request.session] = routed.credits
        return servers[destinations[routed.index].machine]
