"""Capabilities that topologies of one family have in common; a topology takes a set as it is, adds to it or leaves some out.

Topologies declare them as `provides` in their traits; `core.strategy.fit` compares them with what other pieces require.
"""

from __future__ import annotations

from polyrhythm.core.protocols.capability import Capability

ENCODED = frozenset({Capability.PACKETS, Capability.VALUES, Capability.SUMS})
"""Values arrive as codecs have encoded them."""
IN_MEMORY = frozenset({Capability.SHARED_MEMORY, Capability.ONE_SIDED, Capability.SUMS, Capability.HELD_ELSEWHERE})
"""Through memory of one host to which all write without locks. Concurrent writes may overwrite each other, which virtual time does not
model: there each is made at once when its step ends."""

COLLECTIVE = ENCODED | {
    Capability.COLLECTIVES,
    Capability.WAITING,
    Capability.MERGING,
    Capability.LAYERS,
    Capability.VERSIONS,
    Capability.MEAN,
    Capability.EQUAL_WEIGHTS,
    Capability.OWN_WEIGHTS,
}
"""All workers make the same request, and get the same response."""
SERVED = ENCODED | {
    Capability.SERVER,
    Capability.WAITING,
    Capability.ONE_SIDED,
    Capability.CLOCKS,
    Capability.MERGING,
    Capability.SAMPLES,
    Capability.VERSIONS,
    Capability.MEAN,
    Capability.HELD_ELSEWHERE,
}
"""One-sided: with a server that holds the weights; no other worker need be waiting."""
PEERS = ENCODED | {
    Capability.EVERY_PEER,
    Capability.WAITING,
    Capability.ONE_SIDED,
    Capability.CLOCKS,
    Capability.MERGING,
    Capability.SAMPLES,
    Capability.LAYERS,
    Capability.AT_WORKERS,
    Capability.MEAN,
    Capability.EQUAL_WEIGHTS,
}
"""One-sided: to every other worker, which merges it when it next looks."""
NEIGHBOURS = ENCODED | {Capability.MIXING, Capability.WAITING, Capability.MERGING, Capability.AT_WORKERS, Capability.OWN_WEIGHTS}
"""With the few workers that a graph names for this step."""
SOME_PEERS = ENCODED | {Capability.ONE_SIDED, Capability.MERGING, Capability.AT_WORKERS, Capability.OWN_WEIGHTS}
"""One-sided: with another worker, or a few, which need not be waiting."""
