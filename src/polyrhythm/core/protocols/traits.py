"""The traits of pieces: what each declares, above all its payloads and patterns of communication, in which pieces must agree.

Every piece has a `traits` attribute; `strategy.fit` checks them when pieces are composed, and the replica adapts to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from polyrhythm.core.protocols.controller import ControlledSetting


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


class Pattern(Enum):
    """The way in which workers communicate."""

    COLLECTIVE = "collectively"
    """All workers make the same request and get the same response."""
    COMBINED = "collectively, by pairs"
    """As COLLECTIVE, but the result is another combination of the values than their sum: of whole values, as codecs leave them."""
    SERVED = "with a server"
    """One-sided: to a server that holds the weights; no other worker need be waiting."""
    SUMMED = "with servers that sum"
    """All workers push to servers that keep nothing but a step's sums, and get these."""
    PEERS = "with all peers"
    """One-sided: to every other worker, which merges it when it next looks."""
    NEIGHBOURS = "with neighbours"
    """With the few workers that a graph names for this step."""
    SOME_PEERS = "with some peers"
    """One-sided: with another worker, or a few, which need not be waiting."""
    PUSHED = "by push-sum"
    """As NEIGHBOURS, but neighbours get shares, weighted by the mass that is sent with them: no merge can be used."""
    STORED = "through a block store"
    """Through blocks that others keep: the workers that are present make new ones of them."""
    SHARED = "in shared memory"
    """Through memory of one host to which all write without locks. Concurrent writes may overwrite each other, which virtual time does not
    model: there each is made at once when its step ends."""

    DATAGRAMS = "in datagrams"
    """One-sided: to every other worker, in messages that may be lost."""

    @property
    def is_held_elsewhere(self) -> bool:
        """True if the weights, and the user's optimizer where gradients are sent, are not at the workers."""
        return self in {Pattern.SERVED, Pattern.STORED}


EVERY_PAYLOAD = frozenset(Payload) - {Payload.NOTHING}
"""All payloads that are sent."""
UNENCODED = frozenset({Pattern.SHARED, Pattern.DATAGRAMS})
"""Patterns that add a worker's change to the weights as it is: no codec can be used, and no merge but the sum."""
EVERY_PATTERN = frozenset(Pattern) - {Pattern.COMBINED} - UNENCODED
"""Patterns in which separately encoded values are decoded and merged."""
MERGED = EVERY_PATTERN - {Pattern.PUSHED} | {Pattern.COMBINED}
"""Patterns in which a merge is used."""
WAITED = EVERY_PATTERN - {Pattern.SOME_PEERS}
"""Patterns in which workers can wait for each other."""
GRADIENTS = frozenset({Payload.GRADIENT, Payload.FACTORS, Payload.ROWS})
"""All kinds of gradient: a piece that accepts the gradient as a vector accepts any of them."""
DIFFERENCES = GRADIENTS | {Payload.UPDATE}
LOCAL = frozenset({Payload.UPDATE, Payload.WEIGHTS})
ONE_SIDED = frozenset({Pattern.SERVED, Pattern.PEERS})


@dataclass(frozen=True, slots=True)
class CodecTraits:
    """The payloads that a codec can send, the patterns in which it can be used, and its properties.

    `lossy`: the difference between what was given and what was sent is lost, and not kept in the state. `verbatim`: an aggregation is one
    reduction of the value itself, whose response is the total, without a state; values then need no copy. `unbiased`: the loss is zero on
    average. `transforms`: not the values are sent, but something made of them and of earlier ones, such as a momentum; what is sent and
    kept then adds up to that. `keeps`: what is not sent is kept and sent later. `takes`: the settings that a controller may change.
    `ranged`: a packet is the start of a range (1,) and its values, and all else is NO_GRADIENT; such packets are added up without being
    decoded. `divides`: a total is not the sum of what all have sent, but of each of its components the mean over those that have sent it.
    """

    payloads: frozenset[Payload]
    patterns: frozenset[Pattern]
    lossy: bool = False
    verbatim: bool = False
    unbiased: bool = False
    transforms: bool = False
    keeps: bool = False
    takes: frozenset[ControlledSetting] = frozenset()
    ranged: bool = False
    divides: bool = False

    @property
    def makes_packets(self) -> bool:
        """True if it is a `PacketCodec`: if it can be used in any other pattern than the collective one."""
        return bool(self.patterns - {Pattern.COLLECTIVE, Pattern.COMBINED})


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
    """The payloads that workers can send under a consistency, the patterns in which it can be used, and its properties.

    `order_matters`: results depend on the order in which messages arrive. `tolerates_loss`: the others can continue when a worker is lost.
    `waits`: a worker that reads continues only when the response has come; else it takes the weights over at the first step after that.
    `head_start`: the workers that start alone. `chooses`: workers skip steps that others take (`Conditions.takes_part`). `takes`: the
    settings that a controller may change.
    """

    payloads: frozenset[Payload]
    patterns: frozenset[Pattern]
    order_matters: bool
    tolerates_loss: bool
    waits: bool = True
    head_start: HeadStart = HeadStart()
    chooses: bool = False
    takes: frozenset[ControlledSetting] = frozenset()


@dataclass(frozen=True, slots=True)
class MergeTraits:
    """The payloads that a merge can merge, and its properties.

    `averages`: what it combines from all workers' contributions, none of them late, is their mean, and the step that is taken on it is the
    user's optimizer's; only the learning rate may be multiplied, by a factor that may depend on the step. `sees_moved`: a merge of weights
    looks at the change by the worker's own steps since the last exchange, for which a copy of the weights is kept. `one_rate`: it takes one
    learning rate for all parameters. `patterns`: where it can be used; servers may hold a part of a layer. `weighs`: contributions must say
    on how many samples they were computed; sums that were made on the way cannot.
    """

    payloads: frozenset[Payload]
    averages: bool = False
    sees_moved: bool = False
    one_rate: bool = False
    patterns: frozenset[Pattern] = MERGED
    weighs: bool = False


@dataclass(frozen=True, slots=True)
class LocalTraits:
    """The payloads with which a local rule can be used, and its properties.

    `averages`: the state of the optimizers is averaged over the workers after each exchange, for which these must act together.
    `needs_mean`: the result of an exchange must be the mean of all workers' changes, at once, and not something else. `componentwise`: it
    looks at nothing but the components that a gradient has, wherever they are: a sparse one stays sparse. `accumulates`: the change by
    local steps acts again in later exchanges, as a momentum does.
    """

    payloads: frozenset[Payload]
    averages: bool = False
    needs_mean: bool = False
    componentwise: bool = False
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class TopologyTraits:
    """The payloads that can be sent over a topology, its pattern, and its properties.

    `replicas_differ`: each worker applies in full what others are sent in part. `late`: by how many steps a response comes later.
    `tolerates_loss`: the others can continue without a worker even if they wait for each other; `forwards`: they cannot, even if they do
    not wait, because each sends on what others have sent it. `averages`: it brings a mean of weights already, which the merge has to agree
    with. `least_eigenvalue`, for a number of workers, is that of its mixing matrix, where this is symmetric, doubly stochastic and the same
    in every exchange. `differences`: codecs are given the difference of weights to what the receivers have. `takes`: the settings that a
    controller may change. `spare_servers`: how many servers may be lost. `on_top`: the response is a difference to what was sent, and is
    added to whatever weights the worker has by then.
    """

    payloads: frozenset[Payload]
    pattern: Pattern
    replicas_differ: bool = False
    late: int = 0
    tolerates_loss: bool = False
    averages: bool = False
    least_eigenvalue: Callable[[int], float] | None = None
    differences: bool = False
    takes: frozenset[ControlledSetting] = frozenset()
    forwards: bool = False
    spare_servers: int = 0
    on_top: bool = False
