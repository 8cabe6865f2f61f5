"""What each piece declares of itself; two of its declarations, payload and communication pattern, are what pieces must agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from polyrhythm.core.protocols.controller import ControlledSetting


class Payload(Enum):
    """What a worker sends in an exchange."""

    GRADIENT = "gradients"
    """The gradient of its batch; the optimizer step is taken where the weights are held."""
    UPDATE = "updates"
    """What its own optimizer did to the weights since its last exchange, with the sign of a gradient (before minus after)."""
    WEIGHTS = "weights"
    """Its weights as they are."""
    FACTORS = "factors of gradients"
    """The gradient of its batch, with what multiplies out to it: the inputs of linear layers, and the gradients of their outputs."""
    ROWS = "rows of gradients"
    """The gradient of its batch, of which many rows may be zero, or which may be sparse."""
    NOTHING = "writes to shared weights"
    """Nothing: its own optimizer steps on weights in memory that all workers share."""

    @property
    def is_gradient(self) -> bool:
        """Whether it is the gradient of a batch, in whatever form: merged as a gradient is."""
        return self in GRADIENTS

    @property
    def is_sized_by_data(self) -> bool:
        """Whether its size is not that of the vector, and known only when gradients have been computed."""
        return self in {Payload.FACTORS, Payload.ROWS}


class Pattern(Enum):
    """How workers communicate."""

    COLLECTIVE = "collectively"
    """All workers make the same request and get the same response."""
    COMBINED = "collectively, by pairs"
    """As COLLECTIVE, but what comes of it is another combination of the values than their sum: of whole values, as codecs leave them."""
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
    """As NEIGHBOURS, but neighbours are sent shares, which are weighed by the mass that goes with them: nothing else can merge them."""
    STORED = "through a block store"
    """Through blocks that others keep: whoever is there makes new ones of them."""
    SHARED = "in shared memory"
    """Through memory of one host to which all write without locks. Concurrent writes may overwrite each other, which virtual time does not
    model: there each is made at once when its step ends."""

    DATAGRAMS = "in datagrams"
    """One-sided: to every other worker, in messages that may be lost."""

    @property
    def is_held_elsewhere(self) -> bool:
        """Whether the weights, and the user's optimizer where gradients are sent, are not at the workers."""
        return self in {Pattern.SERVED, Pattern.STORED}


EVERY_PAYLOAD = frozenset(Payload) - {Payload.NOTHING}
"""All that can be sent."""
UNENCODED = frozenset({Pattern.SHARED, Pattern.DATAGRAMS})
"""Where what a worker has done is added to the weights as it is: no codec and no merge but the sum has a place there."""
EVERY_PATTERN = frozenset(Pattern) - {Pattern.COMBINED} - UNENCODED
"""All in which values that are encoded apart are decoded and merged."""
MERGED = EVERY_PATTERN - {Pattern.PUSHED} | {Pattern.COMBINED}
"""All in which merges have a say."""
WAITED = EVERY_PATTERN - {Pattern.SOME_PEERS}
"""All in which workers can wait for each other."""
GRADIENTS = frozenset({Payload.GRADIENT, Payload.FACTORS, Payload.ROWS})
"""All kinds of gradient: a piece that accepts the vector accepts any of them."""
DIFFERENCES = GRADIENTS | {Payload.UPDATE}
LOCAL = frozenset({Payload.UPDATE, Payload.WEIGHTS})
ONE_SIDED = frozenset({Pattern.SERVED, Pattern.PEERS})


@dataclass(frozen=True, slots=True)
class CodecTraits:
    """What a codec can send, and how.

    `lossy`: whether the difference between what was given and what was sent is lost, and not kept in the state. `verbatim`: whether an
    aggregation is one reduction of the value itself, whose response is the total, without a state; values then need no copy. `unbiased`:
    whether what is lost is zero on average. `transforms`: whether it is not the values that are sent, but something made of them and of
    earlier ones, such as a momentum; what is sent and kept then adds up to that. `keeps`: whether what is not sent is kept and sent later.
    `takes`: what a controller may set. `ranged`: whether a packet is where a range begins (1,) and its values, and all else is NO_GRADIENT;
    such packets are added up without being decoded. `divides`: whether a total is not the sum of what all have sent, but of each of its
    components the mean over those that have sent it.
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
        """Whether it is a `pieces.codec.PacketCodec`: whether it can be used in any other pattern than the collective one."""
        return bool(self.patterns - {Pattern.COLLECTIVE, Pattern.COMBINED})


@dataclass(frozen=True, slots=True)
class HeadStart:
    """The first `workers` train alone, until the others have computed `steps` steps that count for nothing."""

    steps: int = 0
    workers: int = 0

    def holds(self, rank: int) -> bool:
        """Whether the first steps of the worker of `rank` count for nothing."""
        return self.steps > 0 and rank >= self.workers


@dataclass(frozen=True, slots=True)
class ConsistencyTraits:
    """What workers can send under a consistency, and how.

    `order_matters`: whether results depend on the order in which messages arrive. `tolerates_loss`: whether the others can go on when a
    worker is gone. `waits`: whether a worker that reads goes on only when the response has come; else it takes the weights over at the
    first step after that. `head_start`: who begins alone. `chooses`: whether workers pass steps over that others take
    (`Consistency.takes_part`). `takes`: what a controller may set.
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
    """What a merge can merge.

    `averages`: whether what it combines from all workers' contributions, none of them late, is their mean, and the step that is taken on it
    is the user's optimizer's; only the learning rate may be multiplied, by what may depend on the step. `sees_moved`: whether a merge of
    weights looks at what the worker's own steps did since the last exchange, for which a copy of the weights is kept. `one_rate`: whether
    it takes one learning rate for all parameters. `patterns`: where it can be used; servers may hold a part of a layer. `weighs`: whether
    contributions must say on how many samples they were computed; what was summed on the way cannot.
    """

    payloads: frozenset[Payload]
    averages: bool = False
    sees_moved: bool = False
    one_rate: bool = False
    patterns: frozenset[Pattern] = MERGED
    weighs: bool = False


@dataclass(frozen=True, slots=True)
class LocalTraits:
    """With which payloads a rule for local steps can be used, whether it `corrects` gradients, and whether it `settles` after exchanges.

    `averages`: whether what the optimizers remember is averaged over the workers after each exchange, for which these must act together.
    `goes_on`: whether a worker goes on from other weights than those that were agreed on in an exchange of updates (`LocalRule.go_on`).
    `needs_mean`: whether what comes of an exchange must be the mean of what all workers have done, at once, and not something else.
    `componentwise`: whether it looks at nothing but the components that a gradient has, wherever they are: a sparse one stays sparse.
    `accumulates`: whether what local steps did acts again in later exchanges, as a momentum does.
    """

    payloads: frozenset[Payload]
    corrects: bool
    settles: bool
    averages: bool = False
    goes_on: bool = False
    needs_mean: bool = False
    componentwise: bool = False
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class TopologyTraits:
    """What can be sent over a topology, and in which pattern.

    `replicas_differ` where each applies in full what others are sent in part; `late` by how many steps a response comes later.
    `tolerates_loss` where the others can go on without a worker even if they wait for each other; `forwards` where they cannot, even if
    they do not wait, because each sends on what others have sent it. `averages`: whether what it brings is a
    mean of weights already, which the merge has to agree with. `least_eigenvalue`, for a number of workers, is that of its mixing matrix,
    where this is symmetric, doubly stochastic and the same in every exchange. `differences`: whether what codecs are given of weights is
    their difference to what the receivers have. `takes`: what a controller may set. `spare_servers` is how many servers may be lost.
    `on_top`: whether what comes is a difference to what was sent, and is added to whatever weights the worker has by then.
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
