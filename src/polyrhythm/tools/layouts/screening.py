"""The screening: memory by role first, and the seconds of a step of what fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.units import show_bytes
from polyrhythm.partition.explained import RankStep, forward_flops, rank_step
from polyrhythm.partition.layout import MeshLayout
from polyrhythm.partition.pipeline import OneForwardOneBackward
from polyrhythm.tools.layouts.candidate import LayoutCandidate
from polyrhythm.tools.layouts.exchange_trial import ExchangedShape, Link, StepTraffic, traffic
from polyrhythm.tools.layouts.explain import coordinates_of, divided
from polyrhythm.tools.layouts.explanation import ROLES
from polyrhythm.tools.layouts.job import LayoutJob
from polyrhythm.tools.layouts.machines import Machines
from polyrhythm.tools.layouts.spans import Spans, StepSpan


@dataclass(frozen=True)
class ScreenedLayout:
    """What is known of a candidate without training: `seconds` of a step, and its terms at the slowest worker.

    `memory` is by role, and `peak` the most at once, at the worker that has least room left; it lacks `excess` bytes. `links` has the bytes
    of a step by axis and line.
    """

    candidate: LayoutCandidate
    memory: Mapping[str, int]
    peak: int
    worker: int
    excess: float
    span: StepSpan = field(default_factory=lambda: StepSpan(0.0, 0.0))
    exchange: float = 0.0
    links: Mapping[str, Mapping[Link, float]] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether all workers have the memory."""
        return self.excess <= 0

    @property
    def seconds(self) -> float:
        """Of a step, on average."""
        return self.span.seconds + self.exchange

    @property
    def roles(self) -> str:
        """Its memory in words."""
        return ", ".join(f"{role} {show_bytes(self.memory[role])}" for role in ROLES if self.memory.get(role))


@dataclass
class Screening:
    """Screens candidates of one job on machines; what several have in common is found once."""

    job: LayoutJob
    machines: Machines
    _steps: dict[str, RankStep] = field(default_factory=dict)
    _traffic: dict[str, StepTraffic] = field(default_factory=dict)
    _forward: dict[str, int] = field(default_factory=dict)

    def screened(self, candidate: LayoutCandidate) -> ScreenedLayout:
        """What is to be known of the candidate. Raises CompositionError for one that cannot be."""
        layout, strategy = candidate.layout()
        layout.shape.workers(strategy.workers, self.machines.workers)
        every = self._every(candidate, layout)
        sent = self._exchanged(layout, strategy, every)
        room = self.machines.memory or (float("inf"),) * self.machines.workers
        excess = [step.peak + kept - own for step, kept, own in zip(every, sent.kept, room, strict=True)]
        used = [step.peak + kept for step, kept in zip(every, sent.kept, strict=True)]
        worst = max(range(len(every)), key=lambda rank: (excess[rank], used[rank]))
        memory = {**every[worst].memory, "exchange": round(sent.kept[worst])}
        found = ScreenedLayout(candidate, memory, round(used[worst]), worst, excess[worst])
        return found if not found.fits else self._timed(found, self._spans(candidate, layout), sent)

    def deeper(self, candidate: LayoutCandidate) -> LayoutCandidate | None:
        """The same with as many micro-batches under way as its lines need, where one forward and one backward pass are in turn."""
        pipelined = candidate.cut.pipeline
        if pipelined is None or pipelined.schedule != OneForwardOneBackward():
            return None
        layout, _ = candidate.layout()
        kept = self._spans(candidate, layout).in_flight(pipelined)
        ranks, parts = len(kept), pipelined.micro_batches
        if kept == tuple(pipelined.schedule.live(rank, ranks, parts) for rank in range(ranks)):
            return None
        cut = replace(candidate.cut, pipeline=replace(pipelined, schedule=OneForwardOneBackward(kept)))
        return replace(candidate, cut=cut, aspects={**candidate.aspects, "schedule": f"OneForwardOneBackward(in_flight={kept})"})

    def _timed(self, found: ScreenedLayout, spans: Spans, sent: StepTraffic) -> ScreenedLayout:
        every = spans.spans()
        slowest = max(range(len(every)), key=lambda rank: every[rank].seconds + sent.seconds[rank])
        links = {**spans.links(), **({_replicas(spans.layout): sent.links} if sent.links else {})}
        return ScreenedLayout(
            found.candidate, found.memory, found.peak, found.worker, found.excess, every[slowest], sent.seconds[slowest], links
        )

    def _every(self, candidate: LayoutCandidate, layout: MeshLayout) -> list[RankStep]:
        """The step of each worker."""
        subject, sizes, found = self.job.subject(candidate.replicas), divided(layout), []
        for at in self._places(layout):
            key = repr((candidate.replicas, layout.cut, layout.zero, sorted(sizes.items()), sorted(at.items())))
            if key not in self._steps:
                self._steps[key] = rank_step(subject, layout.cut, layout.zero, sizes, at)
            found.append(self._steps[key])
        return found

    def _spans(self, candidate: LayoutCandidate, layout: MeshLayout) -> Spans:
        subject, cut, forward = self.job.subject(candidate.replicas), layout.cut, []
        sizes = {name: size for name, size in divided(layout).items() if name in cut.axes}
        for place in self._places(layout):
            at = {name: place[name] for name in sizes}
            division = None if cut.pipeline is None else cut.pipeline.division
            key = repr((candidate.replicas, cut.names, division, sorted(sizes.items()), sorted(at.items())))
            if key not in self._forward:
                self._forward[key] = forward_flops(subject, cut, sizes, at)
            forward.append(self._forward[key])
        return Spans(layout, self._every(candidate, layout), forward, self.machines)

    def _places(self, layout: MeshLayout) -> list[dict[str, int]]:
        """The coordinates of what each worker has: along axes without stages all have as much as the first, unless shares are unequal."""
        sizes, pipelined = divided(layout), layout.cut.pipeline
        stages = "" if pipelined is None else pipelined.axis
        unequal = len(set(self.machines.speeds)) > 1 and bool(layout.cut.names)
        found = [dict(zip(sizes, own, strict=True)) for own in coordinates_of(layout)]
        return [{name: place if unequal or name == stages else 0 for name, place in at.items()} for at in found]

    def _exchanged(self, layout: MeshLayout, strategy: Strategy, every: list[RankStep]) -> StepTraffic:
        shapes = tuple(tuple(map(ExchangedShape, step.shapes.values())) for step in every)
        key = repr((layout.shape, strategy, shapes))
        if key not in self._traffic:
            self._traffic[key] = traffic(strategy, layout.shape, shapes, (0.0,) * len(shapes), self.machines.on)
        return self._traffic[key]


def _replicas(layout: MeshLayout) -> str:
    """The axes along which the strategy exchanges."""
    return " and ".join(name for name in layout.shape.data if name not in layout.shape.sharded and dict(layout.mesh.axes)[name] > 1)


def room_lacking(screened: ScreenedLayout, others: list[ScreenedLayout]) -> str:
    """By how much a layout does not fit, and the smallest change that fits, of others that do."""
    here = (
        f"does not fit by {show_bytes(screened.excess)} at worker {screened.worker}: {show_bytes(screened.peak)} at once, {screened.roles}"
    )
    fitting = [each for each in others if each.fits]
    if not fitting:
        return f"{here}; nothing that was tried fits: give more workers, more memory, or smaller batches"
    near = min(fitting, key=lambda each: (len(screened.candidate.changes(each.candidate)), each.seconds))
    return f"{here}; the smallest change that fits is {', '.join(screened.candidate.changes(near.candidate))}"
