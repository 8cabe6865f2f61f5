"""Mirrors that exchange through hubs, and wait only for announced elements and for mirrors that are too far behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, PeerChannel, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import PEERS
from polyrhythm.topology.overlay.barriers import Barrier, Unannounced
from polyrhythm.topology.overlay.hub_groups import HubGroups
from polyrhythm.topology.overlay.mirror_clock import AsAgreed, MirrorClock
from polyrhythm.topology.overlay.overlay_channel import OverlayChannel


@dataclass(frozen=True, slots=True)
@checked
class Overlay:
    """Mirrors in `groups`: a member sends what it has to its group's hub, which sends it on (Gaia; Hsieh et al., NSDI 2017).

    `groups` are so many neighbouring ranks each, or lists of ranks; alone in its group, everyone sends to all. A hub adds up what its
    members send and sends the sum to the hubs of the other groups, which send it to their members: between G groups G (G - 1) packets pass.
    It sends with what it has itself, or once a step's time has passed. Members take turns of `turn` steps
    as the hub. What comes is counted by its steps, whatever way it took, so that nothing is lost or doubled between two turns.

    `barrier` has elements announced that take a line longer than a step to carry; nobody reads these until they have come. `clock` bounds
    by how many steps one may be ahead of the slowest, in addition to what the consistency says.
    """

    traits: ClassVar = TopologyTraits(
        frozenset({Payload.UPDATE}), "with all peers", PEERS | {Capability.HELD_ELSEWHERE}, replicas_differ=True, forwards=True
    )
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    groups: int | Sequence[Sequence[int]] = 1
    turn: int = 1
    barrier: Barrier = field(default_factory=Unannounced)
    clock: MirrorClock = field(default_factory=AsAgreed)

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or (isinstance(self.groups, int) and self.groups < 1):
            raise CompositionError(f"Overlay(groups={self.groups!r}) has no hubs: give the size of groups, 1 or more, or lists of ranks.")
        if not isinstance(self.groups, int):
            object.__setattr__(self, "groups", tuple(tuple(group) for group in self.groups))
        if not self.turn >= 1:
            raise CompositionError(f"Overlay(turn={self.turn!r}) has no hub at any step: give the steps of a turn, 1 or more.")

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> PeerChannel:
        """An actor's side. Raises CompositionError where the groups do not have all ranks."""
        groups = HubGroups.of(self.groups, self.turn, endpoint.group.size)
        return OverlayChannel(agreement, endpoint, groups, self.barrier, self.clock)
