"""What the strategy of a layout's data axes sends, and how long its steps take: a run in virtual time of its exchanges alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import torch
from torch import nn

from polyrhythm.core.kernel.events import AnyEvent, Sent, Stepped
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.mesh import MeshShape, WorkerMesh
from polyrhythm.core.protocols.partition import Undivided, note_part
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.tools.measuring.held import held
from polyrhythm.tools.measuring.recurrence import recurrence_of

_LARGEST = 1 << 18
"""Of a longer vector two shortened ones are tried, and what they send and take is taken to grow on in a straight line."""
_LONGEST = 128
"""Steps after which all is taken to come again."""
_WARM, _MEASURED = 12, 4
"""Steps before those that are looked at, for codecs whose packets depend on what they have kept, and the least number of the latter."""


class ExchangedShape(NamedTuple):
    """The shape of a parameter, and the part of the model that it belongs to, where a worker may hold several."""

    shape: tuple[int, ...]
    part: int | None = None


Shapes = tuple[ExchangedShape, ...]
Link = tuple[str, str]
"""The sites, from and to; "" is one without a name."""


@dataclass(frozen=True, slots=True)
class StepTraffic:
    """The `seconds` of a step of each worker, the bytes that each sends in one, and those of all by link.

    Means over the strategy's period, since a step without an exchange sends nothing. `kept` are the bytes that each worker has of what the
    strategy keeps, besides weights and gradients.
    """

    seconds: tuple[float, ...]
    nbytes: tuple[float, ...]
    links: Mapping[Link, float]
    kept: tuple[float, ...]

    def beyond(self, other: StepTraffic, times: float) -> StepTraffic:
        """As much further from `other` as so many times the way from this one to it."""

        def further(here: float, there: float) -> float:
            return there + times * (there - here)

        sent = tuple(map(further, self.nbytes, other.nbytes))
        links = {link: further(self.links.get(link, 0.0), each) for link, each in other.links.items()}
        seconds = tuple(map(further, self.seconds, other.seconds))
        return StepTraffic(seconds, sent, links, tuple(map(further, self.kept, other.kept)))


@dataclass(frozen=True, slots=True)
class _Replicas:
    """A `ModelPartition` whose workers have vectors of their own, on a mesh of that shape."""

    shape: MeshShape

    def at(self, context: WorkerContext, mesh: WorkerMesh) -> Undivided:
        """Nothing is divided: each worker has its vectors already."""
        return Undivided()


@dataclass(frozen=True, slots=True)
class _Exchanging:
    """A training function that steps with random gradients for parameters of these shapes, which are those of its rank."""

    shapes: tuple[Shapes, ...]
    steps: int
    kept: dict[int, int] = field(default_factory=dict)

    def __call__(self, worker: Worker) -> None:
        own = nn.ParameterList([nn.Parameter(torch.zeros(each.shape)) for each in self.shapes[worker.rank]])
        for parameter, each in zip(own, self.shapes[worker.rank], strict=True):
            if each.part is not None:
                note_part(parameter, each.part)
        drawn = torch.Generator().manual_seed(worker.rank)
        gradients = [torch.randn(each.shape, generator=drawn) for each in own]
        model, optimizer = worker.attach(own, torch.optim.SGD(own.parameters(), lr=0.0))
        for _ in range(self.steps):
            worker.count(1)
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        own_nbytes = sum(2 * each.numel() * each.element_size() for each in model.parameters())
        self.kept[worker.rank] = max(0, held(worker) - own_nbytes)


def traffic(strategy: Strategy, shape: MeshShape, shapes: tuple[Shapes, ...], seconds: tuple[float, ...], on: Simulator) -> StepTraffic:
    """Run `strategy` among the workers of a mesh, whose parameters have these shapes and whose steps compute for these seconds.

    Raises CompositionError where the strategy does not fit the mesh.
    """
    timed = Fleet(tuple(Profile(f"step of worker {rank}", (each,)) for rank, each in enumerate(seconds)))
    trial = _Trial(strategy, shape, replace(on, devices=timed, record_sends=True, separate_randomness=False, faults=()))
    longest = max(map(_numel, shapes))
    if all(size == 1 for name, size in shape.axes if name in shape.data and name not in shape.sharded):
        return StepTraffic(seconds, (0.0,) * len(shapes), {}, (0.0,) * len(shapes))
    if longest <= _LARGEST:
        return trial.with_shapes(shapes)
    half, whole = (tuple(tuple(_shortened(each, longest / most) for each in own) for own in shapes) for most in (_LARGEST // 2, _LARGEST))
    lengths = [sum(map(_numel, each)) for each in (half, whole, shapes)]
    return trial.with_shapes(half).beyond(trial.with_shapes(whole), (lengths[2] - lengths[1]) / (lengths[1] - lengths[0]))


@dataclass(frozen=True, slots=True)
class _Trial:
    strategy: Strategy
    shape: MeshShape
    on: Simulator

    def with_shapes(self, shapes: tuple[Shapes, ...]) -> StepTraffic:
        """The traffic of vectors of these shapes."""
        comes_again = recurrence_of(self.strategy, len(shapes))
        period = min(comes_again.period, _LONGEST)
        verbatim = all(level.codec.traits.verbatim for _, exchange in self.strategy.exchanges for level in exchange.levels)
        first = period * math.ceil(max(1 if verbatim else _WARM, min(comes_again.beginning, _LONGEST)) / period)
        last = first + period * math.ceil(_MEASURED / period)
        exchanging = _Exchanging(shapes, last)
        tried = attempt(exchanging, workers=len(shapes), strategy=self.strategy, on=self.on, partition=_Replicas(self.shape))
        events = tried.completed().events
        kept = tuple(float(exchanging.kept[rank]) for rank in range(len(shapes)))
        return _read(events, (first, last), sites_of(self.on, len(shapes)), kept)


def sites_of(on: Simulator, workers: int) -> dict[str, str]:
    """The site of each worker."""
    return {f"worker/{rank}": location.site or "" for rank, location in enumerate(on.locations(workers))}


def _numel(shapes: Shapes) -> int:
    return sum(prod(each.shape) for each in shapes)


def _shortened(given: ExchangedShape, by: float) -> ExchangedShape:
    """The shape with about so many times fewer elements, the first dimensions first."""
    found = []
    for length in given.shape:
        found.append(max(1, round(length / by)))
        by *= found[-1] / length
    return given._replace(shape=tuple(found))


def _read(events: list[AnyEvent], window: tuple[int, int], sites: Mapping[str, str], kept: tuple[float, ...]) -> StepTraffic:
    """The means over the steps of the window."""
    times = {(each.actor, each.clock): each.time for each in events if isinstance(each, Stepped)}
    since, until = ({actor: times[actor, clock] for actor in sites} for clock in window)
    steps = window[1] - window[0]
    nbytes: Counter[str] = Counter()
    links: Counter[Link] = Counter()
    clocks: Counter[str] = Counter()
    for each in events:
        if isinstance(each, Stepped):
            clocks[each.actor] = each.clock
        elif isinstance(each, Sent):
            clock = clocks[each.actor] if each.actor in sites else max(clocks.values(), default=0)  # servers take no steps
            if window[0] <= clock < window[1]:
                nbytes[each.actor] += each.nbytes
                links[sites.get(each.actor, ""), sites.get(each.to, "")] += each.nbytes
    took = tuple((until[actor] - since[actor]) / steps for actor in sites)
    sent = tuple(nbytes[actor] / steps for actor in sites)
    return StepTraffic(took, sent, {link: each / steps for link, each in links.items()}, kept)
