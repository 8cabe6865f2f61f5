"""A Lease, by which of several schedulers one is active. Time is what this process measures: clocks of different hosts may differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.api import CONFLICT, LEASES, MISSING, Api


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The holder of a lease that is not renewed for `seconds` has lost it; it renews at each third, and acts in the first two only."""

    namespace: str
    name: str = "polyrhythm-cluster"
    seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """The knowledge of one scheduler about the lease: since when, by its own clock, it has seen this version, and its own last renewal."""

    seen: str = ""
    since: float = 0.0
    renewed: float | None = None

    def holds(self, terms: LeaseTerms, now: float) -> bool:
        """True while it may act: another can take over only when a third of the time more has passed."""
        return self.renewed is not None and now < self.renewed + terms.seconds * 2 / 3


def claimed(api: Api, terms: LeaseTerms, holder: str, claim: LeaseClaim, now: float) -> LeaseClaim:
    """The claim after an attempt to get or to renew the lease, if that is due. `now` is the time before the request.

    Whoever writes second gets a conflict: the version that a writer has seen goes with the write.
    """
    if claim.renewed is not None and now < claim.renewed + terms.seconds / 3:
        return claim
    path = LEASES.path(terms.namespace, terms.name)
    answer = api.ask("GET", path)
    if answer.status == MISSING:
        made = api.ask("POST", LEASES.path(terms.namespace), _lease(terms, holder, {}))
        return LeaseClaim(_version(made.body), now, now) if made.taken else replace(claim, renewed=None)
    if not answer.taken:
        return claim
    if _version(answer.body) != claim.seen:
        claim = LeaseClaim(_version(answer.body), now, claim.renewed)
    mine = answer.body["spec"].get("holderIdentity") == holder
    lasts = float(answer.body["spec"].get("leaseDurationSeconds") or terms.seconds)
    if not mine and answer.body["spec"].get("holderIdentity") and now < claim.since + lasts:
        return replace(claim, renewed=None)
    written = api.ask("PUT", path, _lease(terms, holder, answer.body))
    if written.taken:
        return LeaseClaim(_version(written.body), now, now)
    return replace(claim, renewed=None) if written.status == CONFLICT else claim


def released(api: Api, terms: LeaseTerms, holder: str) -> None:
    """Give the lease back, so that another need not wait for its end."""
    answer = api.ask("GET", LEASES.path(terms.namespace, terms.name))
    if answer.taken and answer.body["spec"].get("holderIdentity") == holder:
        api.ask("PUT", LEASES.path(terms.namespace, terms.name), _lease(terms, "", answer.body))


def _version(lease: Manifest) -> str:
    return str(lease["metadata"]["resourceVersion"])


def _lease(terms: LeaseTerms, holder: str, before: Manifest) -> Manifest:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {**before.get("spec", {}), "holderIdentity": holder, "leaseDurationSeconds": max(1, round(terms.seconds)), "renewTime": now}
    if before.get("spec", {}).get("holderIdentity") != holder:
        spec |= {"acquireTime": now, "leaseTransitions": before.get("spec", {}).get("leaseTransitions", 0) + (1 if before else 0)}
    metadata = {"name": terms.name, "namespace": terms.namespace}
    if before:
        metadata["resourceVersion"] = _version(before)
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
