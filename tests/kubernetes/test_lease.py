"""Of several schedulers one holds the lease at any time."""

from __future__ import annotations

from polyrhythm.tools.scheduling.kubernetes.api import LEASES, Api
from polyrhythm.tools.scheduling.kubernetes.lease import LeaseClaim, LeaseTerms, claimed, released


def test_one_of_two_holds_it_and_the_other_after_its_end(api: Api, namespace: str) -> None:
    terms = LeaseTerms(namespace, seconds=15.0)
    a = claimed(api, terms, "a", LeaseClaim(), 0.0)
    b = claimed(api, terms, "b", LeaseClaim(), 100.0)  # clocks differ
    assert a.holds(terms, 0.0)
    assert not b.holds(terms, 100.0)
    a = claimed(api, terms, "a", a, 6.0)
    b = claimed(api, terms, "b", b, 106.0)
    assert a.holds(terms, 15.0)
    # a has stopped: b waits for as long as the lease lasts since it has seen its last change
    assert not claimed(api, terms, "b", b, 120.0).holds(terms, 120.0)
    assert not a.holds(terms, 16.0)
    b = claimed(api, terms, "b", b, 121.5)
    assert b.holds(terms, 121.5)
    # a comes back
    assert not claimed(api, terms, "a", a, 30.0).holds(terms, 30.0)


def test_one_that_writes_second_does_not_hold_it(api: Api, namespace: str) -> None:
    terms = LeaseTerms(namespace)
    a = claimed(api, terms, "a", LeaseClaim(), 0.0)
    path = LEASES.path(namespace, terms.name)
    taken = api.ask("GET", path).body
    taken["spec"]["holderIdentity"] = "b"
    assert api.ask("PUT", path, taken).taken
    assert not claimed(api, terms, "a", a, 6.0).holds(terms, 6.0)


def test_a_lease_that_is_given_back_is_had_at_once(api: Api, namespace: str) -> None:
    terms = LeaseTerms(namespace)
    assert claimed(api, terms, "a", LeaseClaim(), 0.0).holds(terms, 0.0)
    released(api, terms, "b")
    assert not claimed(api, terms, "b", LeaseClaim(), 1.0).holds(terms, 1.0)
    released(api, terms, "a")
    assert claimed(api, terms, "b", LeaseClaim(), 2.0).holds(terms, 2.0)
    assert api.ask("GET", LEASES.path(namespace, terms.name)).body["spec"]["leaseTransitions"] == 2
