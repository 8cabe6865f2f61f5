"""A piece that declares too little, or something else, is refused with the declaration that is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import polyrhythm as pr
from polyrhythm.codec.sparse.sparse import ChosenElements
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import CodecTraits, ConsistencyTraits, LocalTraits, MergeTraits, Payload, TopologyTraits
from polyrhythm.errors import CompositionError

SENT = frozenset({Payload.GRADIENT})


@dataclass(frozen=True)
class Averaging:
    """A mean that does not say by how much it scales learning rates."""

    traits: ClassVar = MergeTraits(SENT, averages=True)
    rule: ClassVar[None] = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        return pr.merge.Mean().combine(contributions, context)


@dataclass(frozen=True)
class Traitless(pr.codec.Identity):
    """A codec whose traits are something else."""

    traits: ClassVar[Any] = None


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ({"merge": Averaging()}, r"declares that it averages, and has no scale\(step, workers\)"),
        ({"codec": Traitless()}, r"has traits=None, by which it cannot be composed: declare in Traitless `traits: ClassVar = CodecTraits"),
        ({"codec": pr.codec.TopK}, r"codec=TopK is a class, not a piece: make one of it"),
        ({"codec": "TopK"}, r"codec='TopK' is a name, not a piece"),
        ({"codec": pr.topology.Gossip()}, r"cannot be used as codec"),
    ],
    ids=["merge without scale", "traits of nothing", "class", "name", "another kind"],
)
def test_what_is_no_whole_piece_is_refused(piece: dict[str, Any], message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        pr.Strategy(**piece)


@pytest.mark.parametrize(
    "make",
    [
        lambda given: CodecTraits(SENT, given),
        lambda given: ConsistencyTraits(SENT, given, order_matters=False, tolerates_loss=False),
        lambda given: MergeTraits(SENT, requires=given),
        lambda given: LocalTraits(SENT, requires=given),
        lambda given: TopologyTraits(SENT, "by mail", given),
        lambda given: TopologyTraits(SENT, "by mail", frozenset(Capability), given),
    ],
    ids=["codec", "consistency", "merge", "local", "topology provides", "topology requires"],
)
def test_a_text_is_no_capability(make: Callable[[Any], Any]) -> None:
    with pytest.raises(CompositionError, match=r"has 'waiting': give members of Capability"):
        make(frozenset({"waiting"}))


def test_a_codec_that_leaves_a_method_out_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Unfinished(ChosenElements):
        traits: ClassVar = CodecTraits(SENT)

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()  # type: ignore[abstract]
