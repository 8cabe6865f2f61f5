"""The traits of pieces: what each declares, above all its payloads, in which pieces must agree, and what it requires or provides.

Every piece has a `traits` attribute; `strategy.fit` checks them when pieces are composed, and the replica adapts to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.recurrence import AS_EVER, Recurrence
from polyrhythm.errors import CompositionError


class Payload(Enum):
    """The value that a worker sends in an exchange."""

    GRADIENT = "gradients"
    """The gradient of its batch; the optimizer step is taken where the weights are held."""
    UPDATE = "updates"
    """The change of the weights by its own optimizer since its last exchange, with the sign of a gradient (before minus after)."""
    WEIGHTS = "weights"
    """Its weights as they are."""
    FACTORS = "factors of gradients"
    """The gradient of its batch, with its factors: the inputs of linear layers, and the gradients of their outputs."""
    ROWS = "rows of gradients"
    """The gradient of its batch, of which many rows may be zero, or which may be sparse."""
    NOTHING = "writes to shared weights"
    """Nothing: its own optimizer steps on weights in memory that all workers share."""

    @property
    def is_gradient(self) -> bool:
        """True if it is the gradient of a batch, in whatever form: merged as a gradient is."""
        return self in GRADIENTS

    @property
    def is_sized_by_data(self) -> bool:
        """True if its size is not that of the vector, and known only when gradients have been computed."""
        return self in {Payload.FACTORS, Payload.ROWS}


EVERY_PAYLOAD = frozenset(Payload) - {Payload.NOTHING}
"""All payloads that are sent."""
GRADIENTS = frozenset({Payload.GRADIENT, Payload.FACTORS, Payload.ROWS})
"""All kinds of gradient: a piece that accepts the gradient as a vector accepts any of them."""
DIFFERENCES = GRADIENTS | {Payload.UPDATE}
LOCAL = frozenset({Payload.UPDATE, Payload.WEIGHTS})


def _only_capabilities(traits: str, **given: Iterable[Capability]) -> None:
    """Raise CompositionError for anything else than capabilities in a field: a text would be neither provided nor required."""
    for name, members in given.items():
        for each in members:
            if not isinstance(each, Capability):
                raise CompositionError(f"{traits}({name}=…) has {each!r}: give members of Capability, such as Capability.PACKETS.")


@dataclass(frozen=True, slots=True)
class CodecTraits:
    """The payloads that a codec can send, what it requires of the topology, and its properties.

    `lossy`: the difference between what was given and what was sent is lost, and not kept in the state. `verbatim`: an aggregation is one
    reduction of the value itself, whose response is the total, without a state; values then need no copy. `unbiased`: the loss is zero on
    average. `transforms`: not the values are sent, but something made of them and of earlier ones, such as a momentum; what is sent and
    kept then adds up to that. `keeps`: what is not sent is kept and sent later. `takes`: the settings that a controller may change.
    `ranged`: a packet is the start of a range (1,) and its values, and all else is NO_GRADIENT; such packets are added up without being
    decoded. `divides`: a total is not the sum of what all have sent, but of each of its components the mean over those that have sent it.
    `recodes`: sums are encoded once more by one worker for all, whose residual has what it could not send of them. `recurs`: after how
    many values it encodes as it did before.
    """

    payloads: frozenset[Payload]
    requires: frozenset[Capability] = frozenset({Capability.PACKETS})
    lossy: bool = False
    verbatim: bool = False
    unbiased: bool = False
    transforms: bool = False
    keeps: bool = False
    takes: frozenset[ControlledSetting] = frozenset()
    ranged: bool = False
    divides: bool = False
    recodes: bool = False
    recurs: Recurrence = AS_EVER

    def __post_init__(self) -> None:
        _only_capabilities("CodecTraits", requires=self.requires)

    @property
    def makes_packets(self) -> bool:
        """True if it is a `PacketCodec`: if it can be used where workers do not act together."""
        return Capability.COLLECTIVES not in self.requires

    def lacks(self, need: Capability) -> str:
        """The reason why pieces that require `need` cannot be used with the codec, as the end of a sentence; empty where they can."""
        match need:
            case Capability.MEAN:
                return "loses a part of it" if self.lossy else "sends something else" if self.transforms else ""
            case Capability.DIFFERENCES:
                return "would add it once more" if self.keeps or self.transforms else ""
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class HeadStart:
    """The first `workers` train alone, until the others have computed `steps` steps that are not used."""

    steps: int = 0
    workers: int = 0

    def holds(self, rank: int) -> bool:
        """True if the first steps of the worker of `rank` are not used."""
        return self.steps > 0 and rank >= self.workers


@dataclass(frozen=True, slots=True)
class ConsistencyTraits:
    """The payloads that workers can send under a consistency, what it requires of the topology, and its properties.

    `order_matters`: results depend on the order in which messages arrive. `tolerates_loss`: the others can continue when a worker is lost.
    `waits`: a worker that reads continues only when the response has come; else it takes the weights over at the first step after that.
    `head_start`: the workers that start alone. `chooses`: workers skip steps that others take (`Conditions.takes_part`). `takes`: the
    settings that a controller may change.
    """

    payloads: frozenset[Payload]
    requires: frozenset[Capability]
    order_matters: bool
    tolerates_loss: bool
    waits: bool = True
    head_start: HeadStart = HeadStart()
    chooses: bool = False
    takes: frozenset[ControlledSetting] = frozenset()

    def __post_init__(self) -> None:
        _only_capabilities("ConsistencyTraits", requires=self.requires)

    def lacks(self, need: Capability) -> str:
        """The reason why pieces that require `need` cannot be used under the consistency, as `CodecTraits.lacks`."""
        match need:
            case Capability.MEAN:
                return "merges what some have done" if self.order_matters or self.chooses else ""
            case Capability.MIXING:
                return "lets them come at any time" if self.order_matters else ""
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class MergeTraits:
    """The payloads that a merge can merge, what it requires of the topology, and its properties.

    `averages`: what it combines from all workers' contributions, none of them late, is their mean, and the step that is taken on it is the
    user's optimizer's; only the learning rate may be multiplied, by a factor that may depend on the step. `sees_moved`: a merge of weights
    looks at the change by the worker's own steps since the last exchange, for which a copy of the weights is kept. `one_rate`: it takes one
    learning rate for all parameters.
    """

    payloads: frozenset[Payload]
    requires: frozenset[Capability] = frozenset({Capability.MERGING})
    averages: bool = False
    sees_moved: bool = False
    one_rate: bool = False

    def __post_init__(self) -> None:
        _only_capabilities("MergeTraits", requires=self.requires)

    def lacks(self, need: Capability) -> str:
        """The reason why pieces that require `need` cannot be used with the merge, as `CodecTraits.lacks`."""
        match need:
            case Capability.MIXING:
                return "" if self.averages else "makes something else of them"
            case Capability.TOTALS:
                return "" if self.payloads & DIFFERENCES else "mixes the weights of each"
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class LocalTraits:
    """The payloads with which a local rule can be used, what it requires, and its properties.

    `averages`: the state of the optimizers is averaged over the workers after each exchange, for which these must act together.
    `componentwise`: it looks at nothing but the components that a gradient has, wherever they are: a sparse one stays sparse.
    `accumulates`: the change by local steps acts again in later exchanges, as a momentum does.
    """

    payloads: frozenset[Payload]
    requires: frozenset[Capability] = frozenset()
    averages: bool = False
    componentwise: bool = False
    accumulates: bool = False

    def __post_init__(self) -> None:
        _only_capabilities("LocalTraits", requires=self.requires)


@dataclass(frozen=True, slots=True)
class TopologyTraits:
    """The payloads that can be sent over a topology, `how` workers communicate, what it provides and requires, and its properties.

    `how` ends the sentence "workers communicate …", in messages and documents alone. `replicas_differ`: each worker applies in full what
    others are sent in part. `late`: by how many steps a response comes later. `tolerates_loss`: the others can continue without a worker
    even if they wait for each other; `forwards`: they cannot, even if they do not wait, because each sends on what others have sent it.
    `least_eigenvalue`, for a number of workers, is that of its mixing matrix, where this is symmetric, doubly stochastic and the same in
    every exchange. `takes`: the settings that a controller may change. `spare_servers`: how many servers may be lost. `rounds`: sums are
    rounded on their way by more than their type does. `recurs`: after how many exchanges the same is sent again.
    """

    payloads: frozenset[Payload]
    how: str
    provides: frozenset[Capability]
    requires: frozenset[Capability] = frozenset()
    replicas_differ: bool = False
    late: int = 0
    tolerates_loss: bool = False
    least_eigenvalue: Callable[[int], float] | None = None
    takes: frozenset[ControlledSetting] = frozenset()
    forwards: bool = False
    spare_servers: int = 0
    rounds: bool = False
    recurs: Recurrence = AS_EVER

    def __post_init__(self) -> None:
        _only_capabilities("TopologyTraits", provides=self.provides, requires=self.requires)

    def lacks(self, need: Capability) -> str:
        """The reason why pieces that require `need` cannot be used over the topology, as `CodecTraits.lacks`."""
        later = ", with late results" if self.late else ""
        return "" if need in self.provides else f"workers communicate {self.how}{later}"
