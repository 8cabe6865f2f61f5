"""The composition of the pieces, refused when they do not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from polyrhythm.codec import Identity
from polyrhythm.consistency import Lockstep
from polyrhythm.errors import CompositionError
from polyrhythm.kernel.port import worker
from polyrhythm.merge import Mean
from polyrhythm.partition import Replicate
from polyrhythm.pieces.codec import Codec
from polyrhythm.pieces.consistency import Consistency
from polyrhythm.pieces.merge import Merge
from polyrhythm.pieces.shuffle import Shuffle
from polyrhythm.pieces.terms import Manner, Subject
from polyrhythm.pieces.topology import Terms, Topology
from polyrhythm.shuffle import GlobalShuffle
from polyrhythm.topology import AllReduce


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way of training together: what a worker holds, when it asks, in which words, who answers, what the answer does.

    Raises CompositionError when the pieces have no subject or no manner of speaking in common.

    >>> Strategy().terms.subject.value
    'gradients'
    """

    consistency: Consistency = field(default_factory=Lockstep)
    topology: Topology = field(default_factory=AllReduce)
    codec: Codec = field(default_factory=Identity)
    merge: Merge = field(default_factory=Mean)
    partition: Replicate = field(default_factory=Replicate)
    shuffle: Shuffle = field(default_factory=GlobalShuffle)

    def __post_init__(self) -> None:
        manner = self.topology.manner
        for piece in (self.consistency, self.codec):
            if manner not in piece.manners:
                raise CompositionError(
                    f"{_name(self.topology)} speaks {manner.value}, and {_name(piece)} only {_list(piece.manners)}: change one of them."
                )
        self._subject()

    def _subject(self) -> Subject:
        """The first subject that all pieces have in common."""
        left = frozenset(Subject)
        for piece, subjects in (
            (self.consistency, self.consistency.offers),
            (self.topology, self.topology.accepts),
            (self.merge, self.merge.accepts),
            (self.codec, self.codec.carries),
        ):
            if not left & subjects:
                hint = " LocalSteps makes workers say updates or weights instead." if left == {Subject.GRADIENT} else ""
                raise CompositionError(
                    f"{_name(piece)} takes {_list(subjects)}, but the rest of the strategy says {_list(left)}: change one of them.{hint}"
                )
            left &= subjects
        return next(subject for subject in Subject if subject in left)

    @property
    def terms(self) -> Terms:
        """What the pieces have agreed on."""
        return Terms(self._subject(), self.consistency, self.codec, self.merge)

    @property
    def order_matters(self) -> bool:
        """Whether the result depends on the order in which messages arrive."""
        return self.consistency.order_matters

    def essential(self, actor: str) -> bool:
        """Whether a run cannot go on without `actor`: servers, worker 0 (it holds the result), and everybody others wait for."""
        return not self.consistency.tolerates_loss or not actor.startswith("worker/") or actor == worker(0)


def _name(piece: Any) -> str:
    return type(piece).__name__


def _list(terms: frozenset[Subject] | frozenset[Manner]) -> str:
    return " or ".join(sorted(term.value for term in terms))
