"""The place of a strategy in two taxonomies, read from its pieces: Langer et al. (2020), and Ben-Nun and Hoefler (2019).

`docs/generate_taxonomy.py` renders the descriptors of all systems; a test holds that they are complete, and unique but for named ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy


@dataclass(frozen=True, slots=True)
class StrategyDescriptor:
    """A strategy on the axes of the two taxonomies, all of them words; `pieces` tells apart what is alike on all axes.

    `optimization` is centralized where one model takes the steps, on gradients, and decentralized where each worker takes its own
    (Langer et al., 2020, section 3.2); `scheduling` synchronous, bounded or asynchronous (section 3.3); `communication` is the pattern, a
    topology for each level and each selection of parameters. `parameters` says where weights are held, and `result` whether all workers end
    with the same (Ben-Nun and Hoefler, 2019, section 7). `payload` and `compression` are what is sent.
    """

    parallelism: str
    optimization: str
    scheduling: str
    communication: str
    parameters: str
    result: str
    payload: str
    compression: str
    pieces: str


def describe(strategy: Strategy) -> StrategyDescriptor:
    """The descriptor of `strategy`. Axes on which the exchanges of a strategy differ have several words, the outermost exchange last."""
    levels = [level for _, exchange in strategy.exchanges for level in exchange.levels]
    return StrategyDescriptor(
        parallelism="data" if any(_communicates(level) for level in levels) else "none",
        optimization=_joined(_optimization(level) for level in levels),
        scheduling=_joined(_scheduling(level) for level in levels),
        communication=_joined(_named(level.topology) for level in levels),
        parameters=_joined(_held(level) for level in levels),
        result="the same everywhere" if strategy.ends_alike else "differs",
        payload=_joined(level.agreement.payload.value for level in levels),
        compression=_joined(_named(level.agreement.codec) for level in levels),
        pieces=", ".join(f"{axis}={piece!r}" for axis, piece in strategy.pieces.items()),
    )


def _communicates(level: Exchange) -> bool:
    return level.workers(2) > 1


def _optimization(level: Exchange) -> str:
    payload = level.agreement.payload
    return "centralized" if payload.is_gradient or payload is Payload.NOTHING else "decentralized"


def _scheduling(level: Exchange) -> str:
    consistency, late = level.agreement.consistency, level.topology.traits.late
    if not level.order_matters:
        return f"synchronous, {late} late" if late else "synchronous"
    return "bounded" if consistency.conditions.waits else "asynchronous"


def _held(level: Exchange) -> str:
    provides = level.topology.traits.provides
    if Capability.SHARED_MEMORY in provides:
        return "in shared memory"
    return "at servers" if Capability.SERVER in provides else "at every worker"


def _named(piece: object) -> str:
    return type(piece).__name__


def _joined(words: Iterable[str]) -> str:
    """The different words, in order."""
    return "; ".join(dict.fromkeys(words))
