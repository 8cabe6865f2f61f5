"""Every topology with every codec, consistency, merge and local rule: what fits in some composition is what `pairs.json` records.

Members that came later are not compared. To record them too, or a change of what fits that is meant:

    PYTHONPATH=tests/strategy python -m test_pairs
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest

from polyrhythm.consistency import Asynchronous, BulkSynchronous, LocalSteps
from polyrhythm.core.catalogue import CHOICES
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.traits import DIFFERENCES, EVERY_PAYLOAD, TopologyTraits
from polyrhythm.core.strategy import Exchange
from polyrhythm.core.strategy.fit import conflict
from polyrhythm.merge import Elastic, Mean, Sum
from polyrhythm.topology import MEMBERS, AllReduce, AllToAll, Gossip, Server
from polyrhythm.topology.families import PEERS

RECORD = Path(__file__).parent / "pairs.json"
AXES = ("consistency", "codec", "merge", "local")
OTHERS: dict[str, tuple[Any, ...]] = {
    "consistency": (BulkSynchronous(), LocalSteps(2), Asynchronous(), LocalSteps(2, Asynchronous())),
    "merge": (Mean(), Sum(), Elastic()),
}
"""Pieces of which some let a pair fit: with other payloads, and with waiting or without."""


def fits(topology: Any, axis: str, piece: Any) -> bool:
    """True if a composition with both is legal, with some of `OTHERS`."""
    pieces = {**Exchange().pieces, "topology": topology, axis: piece}
    free = {other: members for other, members in OTHERS.items() if other != axis}
    return any(conflict({**pieces, **dict(zip(free, choice, strict=True))}) is None for choice in product(*free.values()))


def table() -> dict[str, list[dict[str, list[str]]]]:
    """For each axis the members that fit, once for all topologies that the same ones fit."""
    found = dict[str, list[dict[str, list[str]]]]()
    for axis in AXES:
        rows = dict[tuple[str, ...], list[str]]()
        for topology in MEMBERS:
            rows.setdefault(tuple(sorted(repr(piece) for piece in CHOICES[axis] if fits(topology, axis, piece))), []).append(repr(topology))
        found[axis] = [{"over": sorted(over), "fit": list(fit)} for fit, over in rows.items()]
    return found


def record() -> None:
    """Write what fits now: a name a line."""
    RECORD.write_text(json.dumps(table(), indent=0) + "\n", encoding="utf-8")


def pairs(tables: dict[str, list[dict[str, list[str]]]]) -> set[tuple[str, str, str]]:
    """The topology, the axis and the piece of all pairs that fit."""
    return {(topology, axis, piece) for axis, rows in tables.items() for row in rows for topology in row["over"] for piece in row["fit"]}


def test_the_pairs_that_fit_are_those_that_are_recorded() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    known = {topology for rows in recorded.values() for row in rows for topology in row["over"]}
    pieces = {(axis, piece) for axis, rows in recorded.items() for row in rows for piece in row["fit"]}
    now = {(topology, axis, piece) for topology, axis, piece in pairs(table()) if topology in known and (axis, piece) in pieces}
    changed = now ^ pairs(recorded)
    assert not changed, f"{changed} are not as recorded; if that is meant: PYTHONPATH=tests/strategy python -m test_pairs"


@dataclass(frozen=True)
class Novel:
    """A topology that nobody else has heard of."""

    traits: TopologyTraits
    service: ClassVar[None] = None


def novel(provides: frozenset[Capability]) -> Novel:
    """A topology for gradients and updates with these capabilities, and for weights where it merges them at workers."""
    payloads = EVERY_PAYLOAD if Capability.AT_WORKERS in provides else DIFFERENCES
    return Novel(TopologyTraits(payloads, "by carrier pigeons", provides))


EVERYTHING = frozenset(Capability) - {Capability.SERVER}  # with a server, weights are mixed at both ends
SETS = [
    EVERYTHING,
    *(EVERYTHING - {each} for each in Capability),
    *(each.traits.provides for each in (AllReduce(), AllToAll(), Gossip(), Server())),
]


@pytest.mark.parametrize("provides", SETS, ids=lambda provides: ",".join(sorted(each.name for each in provides)))
def test_a_new_topology_fits_exactly_the_pieces_whose_requirements_it_provides(provides: frozenset[Capability]) -> None:
    topology = novel(provides | {Capability.VALUES, Capability.WAITING, Capability.ONE_SIDED, Capability.MERGING})
    for axis in AXES:
        for piece in CHOICES[axis]:
            traits = piece.traits
            if traits.payloads & topology.traits.payloads:
                assert fits(topology, axis, piece) is (traits.requires <= topology.traits.provides), piece


def test_a_message_names_the_piece_what_it_needs_where_that_is_had_and_how_workers_communicate() -> None:
    reason = conflict({**Exchange().pieces, "topology": novel(PEERS - {Capability.WAITING})})
    assert reason is not None
    assert reason.endswith(
        "do not fit: BulkSynchronous needs a point at which workers wait for each other, as over AllReduce, Bucketed or another, and over "
        "Novel workers communicate by carrier pigeons"
    )


def test_every_requirement_of_a_member_is_provided_by_some_topology() -> None:
    provided = frozenset[Capability]().union(*(member.traits.provides for member in MEMBERS))
    for axis in AXES:
        for piece in CHOICES[axis]:
            assert piece.traits.requires <= provided, piece


def test_rules_that_mix_vectors_say_what_they_require_of_the_mixing() -> None:
    for rule in CHOICES["local"]:
        mixing = rule.hooks.mixing
        needs = set() if mixing is None else {Capability.MIXING}
        if mixing is not None and mixing.least_eigenvalue is not None:
            needs.add(Capability.SYMMETRIC)
        assert needs == rule.traits.requires & {Capability.MIXING, Capability.SYMMETRIC}, rule


def test_a_topology_has_a_least_eigenvalue_where_it_mixes_by_one_symmetric_matrix() -> None:
    for member in MEMBERS:
        assert (member.traits.least_eigenvalue is not None) is (Capability.SYMMETRIC in member.traits.provides)


if __name__ == "__main__":
    record()
