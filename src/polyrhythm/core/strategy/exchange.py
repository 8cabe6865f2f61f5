"""One way of exchanging: when, with whom, in which encoding, and with which effect on the weights.

A `Strategy` holds one or several; `systems` compose them, and `among` makes the plan of one for the workers of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Protocol

from polyrhythm.core import rng
from polyrhythm.core.catalogue import CHOICES, AllReduce, BulkSynchronous, Identity, Mean
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import Controller, Fixed
from polyrhythm.core.protocols.local import LocalRule, PlainSteps
from polyrhythm.core.protocols.merge import Merge
from polyrhythm.core.protocols.topology import Agreement, Topology
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.strategy.check import require_piece
from polyrhythm.core.strategy.fit import conflict, payload, remedy
from polyrhythm.core.strategy.flat_plan import FlatPlan
from polyrhythm.core.strategy.plan import ExchangePlan, Participants
from polyrhythm.errors import CompositionError

_HORIZON = 100_000
"""Steps within which a consistency is expected to have filled any quorum."""
_ROUNDING = 1e-9
"""The rounding of an eigenvalue."""
_LATEST = 64
"""The number of first exchanges that are checked for a distance that is too short."""


class AnyExchange(Protocol):
    """An exchange among equals (`Exchange`), or one of several levels (`Hierarchical`). Settings are frozen."""

    @property
    def pieces(self) -> Mapping[str, Any]:
        """The pieces that compose the exchange, by axis."""

    @property
    def agreement(self) -> Agreement:
        """The pieces of the exchange in which workers, or the groups that they form, are equals."""

    @property
    def topology(self) -> Topology:
        """The topology of the exchange that `agreement` describes."""

    @property
    def order_matters(self) -> bool:
        """True if the result depends on the order in which messages arrive."""

    @property
    def tolerates_loss(self) -> bool:
        """True if the others can continue when a worker is lost."""

    @property
    def tolerates_server_loss(self) -> bool:
        """True if other servers have copies of each server's weights, and where there are no servers."""

    @property
    def ends_alike(self) -> bool:
        """True if all replicas end with the same bits."""

    @property
    def levels(self) -> tuple[Exchange, ...]:
        """The exchanges of one level that it is made of, the innermost first."""

    def with_pieces(self, pieces: Mapping[str, Any]) -> AnyExchange:
        """The same exchange with some pieces replaced, by axis. Raises CompositionError where they do not fit."""

    def workers(self, available: int) -> int:
        """The number of the available workers that it uses."""

    def check(self, workers: int) -> None:
        """Raise CompositionError for a number of workers with which it would wait for ever."""

    def among(self, participants: Participants) -> ExchangePlan:
        """The plan of the exchange among them."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
@checked
class Exchange:
    """A compatible consistency, topology, codec, merge, rule for local steps and controller, for all of a model or for some parameters.

    Raises CompositionError where the pieces have no payload in common, or one requires what another does not provide.

    Examples:
        >>> Exchange().payload.value
        'gradients'
    """

    consistency: Consistency = field(default_factory=BulkSynchronous)
    topology: Topology = field(default_factory=AllReduce)
    codec: Codec = field(default_factory=Identity)
    merge: Merge = field(default_factory=Mean)
    local: LocalRule = field(default_factory=PlainSteps)
    controller: Controller = field(default_factory=Fixed)
    agreement: Agreement = field(init=False, compare=False)
    """The pieces, and the payload on which they have agreed."""

    def __repr__(self) -> str:
        """The pieces without plain steps and fixed settings, which would fill every table."""
        shown = (f"{axis}={piece!r}" for axis, piece in self.pieces.items() if piece not in (PlainSteps(), Fixed()))
        return f"Exchange({', '.join(shown)})"

    def __post_init__(self) -> None:
        for axis, piece in self.pieces.items():
            require_piece(axis, piece, CHOICES[axis][0])
        reason = conflict(self.pieces)
        if reason is not None:
            raise CompositionError(f"{reason}. {remedy(self.pieces)}")
        agreed = payload(self.pieces)
        assert agreed is not None, "what has nothing in common was refused"
        agreement = Agreement(agreed, self.consistency, self.codec, self.merge, self.local, self.controller)
        object.__setattr__(self, "agreement", agreement)

    @property
    def pieces(self) -> dict[str, Any]:
        """All pieces, by axis."""
        return {
            "consistency": self.consistency,
            "topology": self.topology,
            "codec": self.codec,
            "merge": self.merge,
            "local": self.local,
            "controller": self.controller,
        }

    @property
    def payload(self) -> Payload:
        """The value that a worker sends."""
        return self.agreement.payload

    @property
    def order_matters(self) -> bool:
        """True if the result depends on the order in which messages arrive."""
        return self.consistency.traits.order_matters

    @property
    def tolerates_loss(self) -> bool:
        """True if the others can continue when a worker is lost."""
        traits = self.topology.traits
        return not traits.forwards and (self.consistency.traits.tolerates_loss or traits.tolerates_loss)

    @property
    def tolerates_server_loss(self) -> bool:
        """True if other servers have copies of each server's weights, and where there are no servers."""
        return self.topology.service is None or self.topology.traits.spare_servers > 0

    @property
    def ends_alike(self) -> bool:
        """True if all replicas end with the same bits: not where each merges the others' contributions in another order."""
        traits = self.topology.traits
        return not (traits.replicas_differ or (self.order_matters and Capability.EVERY_PEER in traits.provides))

    @property
    def levels(self) -> tuple[Exchange, ...]:
        """Itself."""
        return (self,)

    def with_pieces(self, pieces: Mapping[str, Any]) -> Exchange:
        """The same exchange with some pieces replaced."""
        return replace(self, **pieces)

    def workers(self, available: int) -> int:
        """The number of the available workers that it uses."""
        return self.topology.workers(available)

    def check(self, workers: int) -> None:
        """Refuse a number of workers with which a quorum is never reached or the mixing diverges, and responses that come too late."""
        quorum = self.consistency.conditions.quorum(workers)
        self._check_mixing(workers)
        if self.topology.traits.late and self.payload is Payload.UPDATE:
            self._check_late(list(islice(self.clocks(workers), _LATEST)))
        exchanged = list(islice(self.clocks(workers), quorum - 1))
        complete = workers % quorum == 0 or self.consistency.traits.chooses  # the workers that are drawn are a group
        if not complete and exchanged and not self.consistency.conditions.may_proceed(exchanged[-1], 0):
            raise CompositionError(
                f"{self.consistency!r} merges {quorum} contributions at a time and lets no worker continue until its own is merged, but "
                f"{workers} workers are no multiple of {quorum}: the rest would wait for ever. Use a multiple of {quorum}, or other groups."
            )

    def _check_mixing(self, workers: int) -> None:
        mixing = self.local.hooks.mixing
        limit = None if mixing is None else mixing.least_eigenvalue
        if limit is None or self.topology.traits.least_eigenvalue is None:
            return
        least = self.topology.traits.least_eigenvalue(workers)
        if least <= limit + _ROUNDING:
            raise CompositionError(
                f"{self.local!r} diverges over {self.topology!r}: the least eigenvalue of the mixing matrix of {workers} workers is "
                f"{least:.3g}, and it must be above {limit:.3g}. Keep more of a worker's own weights, as with "
                "Lazy(MetropolisHastings(), 0.5)."
            )

    def clocks(self, workers: int) -> Iterator[int]:
        """The steps after which one of so many workers exchanges."""
        before = ExchangeContext(Group.of_workers(workers, 0), rng.stream(0, "exchange"))
        exchanges = self.consistency.conditions.exchanges
        return (clock for clock in range(1, _HORIZON) if exchanges(replace(before, clock=clock)))

    def _check_late(self, clocks: Sequence[int]) -> None:
        for clock, after in pairwise(clocks):
            if after - clock <= self.topology.traits.late:
                raise CompositionError(
                    f"{self.topology!r} brings the result of the update of step {clock} after step {clock + self.topology.traits.late}, "
                    f"and {self.consistency!r} sends the next after step {after}: take a shorter delay, or more steps between exchanges."
                )

    def among(self, participants: Participants) -> ExchangePlan:
        """The plan of the exchange among them. Raises CompositionError for memory that is to be shared between sites."""
        sites = dict.fromkeys(location.site for location in participants.locations)
        if Capability.SHARED_MEMORY in self.topology.traits.provides and len(sites) > 1:
            raise CompositionError(
                f"{self.topology!r} is for workers of one host, and these are at {len(sites)} sites ({', '.join(list(sites)[:3])}, …): "
                "take a network of one site, or a system whose workers exchange by messages, such as downpour."
            )
        return FlatPlan(self.agreement, self.topology, participants)
