"""Admission at the entrance of a site, simulated or real: the buckets of all sessions under the plan that is followed."""

from __future__ import annotations

from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.token_bucket import AdmissionRule, BucketLevel, TokenBucket

_UNPLANNED = 1.0
"""Seconds after which a session without a machine may ask again: a plan may have one for it by then."""


class SessionBuckets:
    """A bucket and its level for each session that a plan has had."""

    def __init__(self, rule: AdmissionRule) -> None:
        self._rule = rule
        self._buckets: dict[str, TokenBucket] = {}
        self._levels: dict[str, BucketLevel] = {}

    def follow(self, plan: ServingPlan, now: float) -> None:
        """Use the buckets of another plan; one keeps its tokens as far as the new one holds them."""
        for session in plan.routes:
            bucket = self._rule.bucket(plan, session)
            before = self._levels.get(session)
            self._buckets[session] = bucket
            self._levels[session] = bucket.full(now) if before is None else BucketLevel(min(before.tokens, bucket.burst), before.at)

    def admit(self, session: str, now: float) -> float:
        """The seconds after which a request may come again; 0 where it is admitted. A session that no plan had is not admitted."""
        if session not in self._buckets:
            return _UNPLANNED
        self._levels[session], wait = self._buckets[session].admit(self._levels[session], now)
        return wait
