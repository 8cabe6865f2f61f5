"""Checks of the exchange among the servers of groups: as mirrors of each other, or as relays to servers above."""

from __future__ import annotations

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.merge import keeps_rates
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.exchange import AnyExchange

_MANY = 2**20


def refusal_of_mirrors(outer: AnyExchange) -> str:
    """The reason why the servers of groups cannot be mirrors of each other by `outer`, as a sentence; empty where they can."""
    if Capability.EVERY_PEER in outer.topology.traits.provides and outer.agreement.payload is Payload.UPDATE:
        return ""
    return (
        f"The servers of groups exchange updates as peers, and {outer!r} does otherwise: take Mirrors() and LocalSteps(1, ...) for the "
        "outer exchange, or Server() if servers above them are to hold the weights."
    )


def refusal_of_relays(inner: AnyExchange, outer: AnyExchange) -> str:
    """The reason why the servers of groups, whose members use `inner`, cannot stand for them in `outer`; empty where they can."""
    sent, above = inner.agreement.payload, outer.agreement.payload
    if inner.agreement.conditions.quorum(_MANY) < _MANY:
        return (
            f"inner={inner!r} merges the contributions of a group one by one, so that its server has nothing to add up for the servers "
            "above: take an inner exchange in lockstep, or SoftSync(1)."
        )
    if Payload.WEIGHTS in {sent, above} or sent.is_gradient is not above.is_gradient:
        return (
            f"The servers of groups add up {sent.value}, and the servers above them would be sent {above.value}: let both exchanges be of "
            "gradients, or both of updates, by LocalSteps and a merge of differences, such as Mean()."
        )
    if not outer.agreement.consistency.traits.waits:
        return (
            f"The server of a group waits for the response from above, and under {outer.agreement.consistency!r} nobody does: take "
            "BulkSynchronous(), Bounded(...) or Asynchronous() for the outer exchange."
        )
    if not keeps_rates(inner.agreement.merge, 2):
        return (
            f"The server of a group sends the mean of what its members push, and {inner.agreement.merge!r} is no mean: take Mean(), and "
            "give the merge to the outer exchange."
        )
    return ""
