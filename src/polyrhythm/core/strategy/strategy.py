"""A way of training together: what is exchanged how, and what else all workers agree on.

Users compose one, or take one of `systems`; `run` makes its `StrategyPlan` for the workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.catalogue import GlobalShuffle, MeanBuffers, Named
from polyrhythm.core.protocols.buffers import Buffers
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.controller import ControlledSetting, Controller, Fixed
from polyrhythm.core.protocols.local import LocalRule, PlainSteps
from polyrhythm.core.protocols.merge import Merge
from polyrhythm.core.protocols.selection import Selection
from polyrhythm.core.protocols.shuffle import Shuffle
from polyrhythm.core.protocols.topology import Agreement, Topology
from polyrhythm.core.settings import checked, shown
from polyrhythm.core.strategy.check import require_piece
from polyrhythm.core.strategy.exchange import AnyExchange, Exchange
from polyrhythm.errors import CompositionError

Selected = Sequence[tuple[Selection, AnyExchange]]


@dataclass(frozen=True, slots=True, init=False, repr=False)
@checked
class Strategy:
    """A distributed training method, composed of pieces.

    `exchange` defines how workers exchange what they compute. `selected` has other exchanges for some of the model's parameters, as pairs
    (selection, exchange); no parameter may be in two of them. The pieces of a single-level exchange may be given instead of `exchange`:
    `consistency`, `topology`, `codec`, `merge`, `local`, `controller`. `shuffle` is which samples a worker sees, and `buffers` with which
    batch-norm statistics the final weights are saved. `name` is its name in tables.

    Raises CompositionError for pieces that do not fit together.

    Examples:
        >>> Strategy().agreement.payload.value
        'gradients'
    """

    exchange: AnyExchange
    selected: tuple[tuple[Selection, AnyExchange], ...]
    shuffle: Shuffle
    buffers: Buffers
    name: str = dataclasses.field(compare=False)

    def __init__(
        self,
        *,
        consistency: Consistency | None = None,
        topology: Topology | None = None,
        codec: Codec | None = None,
        merge: Merge | None = None,
        local: LocalRule | None = None,
        controller: Controller | None = None,
        exchange: AnyExchange | None = None,
        selected: Selected = (),
        shuffle: Shuffle | None = None,
        buffers: Buffers | None = None,
        name: str = "custom",
    ) -> None:
        if exchange is not None:
            require_piece("exchange", exchange, Exchange())
        if not isinstance(selected, (list, tuple)):
            raise CompositionError(f"selected={shown(selected)} is no list: give pairs of a selection and an exchange.")
        for entry in selected:
            _require_pair(entry)
        axes = (("consistency", consistency), ("topology", topology), ("codec", codec), ("merge", merge))
        pieces = {axis: piece for axis, piece in (*axes, ("local", local), ("controller", controller)) if piece is not None}
        chosen = Exchange(**pieces) if exchange is None else exchange.with_pieces(pieces) if pieces else exchange  # type: ignore[arg-type]
        object.__setattr__(self, "exchange", chosen)
        object.__setattr__(self, "selected", tuple(selected))
        object.__setattr__(self, "shuffle", GlobalShuffle() if shuffle is None else shuffle)
        object.__setattr__(self, "buffers", MeanBuffers() if buffers is None else buffers)
        object.__setattr__(self, "name", name)
        require_piece("shuffle", self.shuffle, GlobalShuffle())
        require_piece("buffers", self.buffers, MeanBuffers())
        sets = frozenset(setting for _, each in self.exchanges for setting in each.agreement.controller.traits.sets)
        if ControlledSetting.BATCH in sets - self.shuffle.takes:
            raise CompositionError(
                f"A controller of {self.name} sets batches, and {self.shuffle!r} gives all workers as many samples: add shuffle=OwnPace()."
            )
        self._refuse_unequal_batches()
        if self.chooses and len(rules := {repr(exchange.agreement.consistency) for _, exchange in self.exchanges}) > 1:
            raise CompositionError(
                f"The exchanges of {self.name} have {' and '.join(sorted(rules))}, and a worker takes a step for all of its parameters or "
                "for none: give all of them the same consistency."
            )

    def _refuse_unequal_batches(self) -> None:
        apart = [each for _, each in self.exchanges if not _sums_gradients(each)]
        if self.shuffle.weighs and apart:
            raise CompositionError(
                f"{self.shuffle!r} gives workers unequal batches, whose gradients count by their samples, and by {apart[0]!r} each takes "
                "steps of its own: exchange gradients in each step, as allreduce does, or take shuffle=GlobalShuffle()."
            )

    def __repr__(self) -> str:
        shown = (f"{axis}={piece!r}" for axis, piece in self.pieces.items() if piece not in (PlainSteps(), Fixed()))
        return f"Strategy({', '.join(shown)}, name={self.name!r})"

    @property
    def exchanges(self) -> tuple[tuple[Selection | None, AnyExchange], ...]:
        """All exchanges, each with its selection; the last is for parameters that no selection takes."""
        return (*self.selected, (None, self.exchange))

    @property
    def pieces(self) -> dict[str, Any]:
        """All pieces, by axis; those of other exchanges are under "selected"."""
        selected = {"selected": self.selected} if self.selected else {}
        return {**self.exchange.pieces, **selected, "shuffle": self.shuffle, "buffers": self.buffers}

    @property
    def agreement(self) -> Agreement:
        """The pieces of the one exchange. Raises CompositionError where there are several, each with its own."""
        return self._only.agreement

    @property
    def consistency(self) -> Consistency:
        """The consistency of the one exchange."""
        return self._only.agreement.consistency

    @property
    def topology(self) -> Topology:
        """The topology of the one exchange."""
        return self._only.topology

    @property
    def codec(self) -> Codec:
        """The codec of the one exchange."""
        return self._only.agreement.codec

    @property
    def merge(self) -> Merge:
        """The merge of the one exchange."""
        return self._only.agreement.merge

    @property
    def local(self) -> LocalRule:
        """The rule for local steps of the one exchange."""
        return self._only.agreement.local

    @property
    def controller(self) -> Controller:
        """The controller of the one exchange."""
        return self._only.agreement.controller

    @property
    def _only(self) -> AnyExchange:
        if self.selected:
            raise CompositionError(
                f"{self.name} has {len(self.exchanges)} exchanges, each with its own pieces: ask one of them, such as strategy.exchange, "
                "or all strategy.exchanges."
            )
        return self.exchange

    @property
    def order_matters(self) -> bool:
        """True if the result depends on the order in which messages arrive."""
        return any(exchange.order_matters for _, exchange in self.exchanges)

    @property
    def tolerates_loss(self) -> bool:
        """True if the others can continue when a worker is lost."""
        return all(exchange.tolerates_loss for _, exchange in self.exchanges)

    @property
    def tolerates_server_loss(self) -> bool:
        """True if the run can continue when a server is lost: there are spare servers, with copies of each server's weights."""
        spare = any(exchange.topology.traits.spare_servers for _, exchange in self.exchanges)
        return spare and all(exchange.tolerates_server_loss for _, exchange in self.exchanges)

    @property
    def ends_alike(self) -> bool:
        """True if all replicas end with the same bits."""
        return all(exchange.ends_alike for _, exchange in self.exchanges)

    @property
    def chooses(self) -> bool:
        """True if workers skip steps that others take."""
        return any(exchange.agreement.consistency.traits.chooses for _, exchange in self.exchanges)

    @property
    def shares_memory(self) -> bool:
        """True if workers must be on one host, because they write to the same memory."""
        return any(Capability.SHARED_MEMORY in exchange.topology.traits.provides for _, exchange in self.exchanges)

    def workers(self, available: int) -> int:
        """The number of the available workers that it uses. Raises CompositionError where its exchanges use different numbers."""
        used = {exchange.workers(available) for _, exchange in self.exchanges}
        if len(used) > 1:
            raise CompositionError(
                f"The exchanges of {self.name} use different numbers of workers, {' and '.join(map(str, sorted(used)))} of {available}: "
                "every worker takes part in all of them or in none, so do not combine Alone() with other exchanges."
            )
        return used.pop()

    def check(self, workers: int) -> None:
        """Raise CompositionError for a number of workers with which an exchange would wait for ever."""
        for _, exchange in self.exchanges:
            exchange.check(workers)


def _require_pair(entry: object) -> None:
    if not isinstance(entry, tuple) or len(entry) != 2:
        raise CompositionError(f'selected contains {entry!r}: give pairs, such as (Named("embedding.*"), Exchange()).')
    require_piece("selection", entry[0], Named("embedding.*"))
    require_piece("exchange", entry[1], Exchange())


def _sums_gradients(exchange: AnyExchange) -> bool:
    """True if every step of all workers is on the mean of their gradients."""
    return exchange.agreement.payload.is_gradient and exchange.ends_alike and not exchange.order_matters
