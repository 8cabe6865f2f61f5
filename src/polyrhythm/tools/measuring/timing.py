"""Timing-only runs: one worker is observed for a few steps, and all workers then replay these without their arithmetic. Users call
`simulate_timing`; the planner calls the other functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NoReturn

from polyrhythm import systems
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import AnyEvent, Computed, Stepped
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, SampleStream, ShardFeed, Source, unfollowed
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import attempt, run
from polyrhythm.core.training.work import Train
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware.devices import Device, Machine, Profile
from polyrhythm.hardware.fleet import Fleet, fleet
from polyrhythm.shuffle import GlobalShuffle
from polyrhythm.tools.measuring.replay import Replay, StepShape, sending_zeros
from polyrhythm.tools.measuring.replayed_steps import in_coroutine, in_program

WATCHED_STEPS = 4


@dataclass(frozen=True, slots=True)
class _Noting:
    """Distributes samples as usual, and keeps the first batch."""

    batches: list[Any]
    weighs: bool = False
    sends: bool = False
    takes: frozenset[ControlledSetting] = frozenset()

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Noted(GlobalShuffle().feed(deals, port, perform, controls, follow), self.batches)

    def stream(self, stream: SampleStream, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        """One worker's batches of one read of a stream."""
        return GlobalShuffle().stream(stream, deals, batch_size, first)

    def sharded(self, source: ShardedSource, deals: Deals, totals: BackgroundSums, batch_size: int) -> ShardFeed:
        """One worker's batches of its shard."""
        return GlobalShuffle().sharded(source, deals, totals, batch_size)

    def share(self, order: Order, deals: PassDeals, first: int = 0) -> Iterator[int]:
        """One worker's samples of a pass."""
        return GlobalShuffle().share(order, deals, first)


@dataclass(frozen=True, slots=True)
class _Noted:
    feed: Feed
    batches: list[Any]

    def count(self, source: Source, batch_size: int) -> int:
        return self.feed.count(source, batch_size)

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        for samples, batch in self.feed.epoch(source, deals, batch_size, first):
            if not self.batches:
                self.batches.append(batch)
            yield samples, batch

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        self.feed.skip(source, number, batch_size, batches)


class _EnoughStepsError(PolyrhythmError):
    """Ends the observed run."""


def shape_of(train: Train, seed: int = 0, strategy: str | Strategy = "single") -> StepShape:
    """Observe the first steps of `train` at one worker, in virtual time, under `strategy`.

    Raises CompositionError if it takes none, or steps of several optimizers.
    """
    held: list[Worker] = []
    batches: list[Any] = []
    flops, samples, pending = [], [], 0.0

    def watched(worker: Worker) -> None:
        held.append(worker)
        worker.table = _no_tables  # type: ignore[method-assign]
        train(worker)

    def watch(event: AnyEvent) -> None:
        nonlocal pending
        if isinstance(event, Computed):
            pending += event.seconds  # at one operation a second
        elif isinstance(event, Stepped):
            flops.append(pending)
            samples.append(event.samples)
            pending = 0.0
            if len(flops) == WATCHED_STEPS:
                raise _EnoughStepsError

    on = Simulator(network=Instant(), devices=Device("one operation a second", 1.0))
    alone = dataclasses.replace(systems.resolve(strategy), shuffle=_Noting(batches))
    tried = attempt(watched, workers=1, strategy=alone, on=on, seed=seed, watch=watch)
    if tried.error is not None and not isinstance(tried.error, _EnoughStepsError):
        raise tried.error
    if not flops:
        raise CompositionError("The training function took no step at one worker, so there is nothing to time: check its data and epochs.")
    replica = _only(held[0].attached)
    model, parameters = replica.model, _only_part(replica).local.parameters
    flat, layout = parameters.flat, parameters.layout
    frozen = {name: parameter.detach() for name, parameter in model.named_parameters() if not parameter.requires_grad}
    count, batch = samples[-1] // len(samples), batches[0] if batches else ()
    classes = {path: tuple(kind.__name__ for kind in type(module).__mro__) for path, module in model.named_modules()}
    return StepShape(layout, median(flops), count, batch, frozen, dict(model.named_buffers()), flat.dtype, classes)


def _no_tables(name: str, **settings: object) -> NoReturn:
    raise CompositionError(f"The training function opens the table {name!r}, which a timing-only run cannot replay: time a full run.")


def _only(attached: tuple[Replica, ...]) -> Replica:
    if len(attached) > 1:
        raise CompositionError(
            f"The training function attaches {len(attached)} optimizers, but a timing-only run replays only one: time a full run."
        )
    return attached[0]


def _only_part(replica: Replica) -> Part:
    if len(replica.parts) > 1:
        raise CompositionError("The parameters have several dtypes or devices, but a timing-only run replays only one: time a full run.")
    return replica.parts[0]


def charging(machines: Fleet, flops: float) -> Fleet:
    """The machines with the time of `flops` operations for every step, so that nothing is counted; measured ones stay as they are."""
    return dataclasses.replace(machines, machines=tuple(_charged(each, flops) for each in machines.machines))


def _charged(machine: Machine, flops: float) -> Machine:
    return machine if machine.measured else Profile(machine.name, (machine.step_seconds(flops, 0),))


def charging_shares(machines: Fleet, flops: float, batches: Sequence[int]) -> Fleet:
    """As `charging`, where worker w has `batches[w]` samples of each step, and `flops` are those of a step with the mean of them."""
    places = [machines.place(worker) for worker in range(len(batches))]  # where pauses and terms look for them
    given, terms, last = machines.machines, machines.terms, max(places) + 1
    own = [given[place % len(given)] for place in range(last)]
    for worker, place in enumerate(places):
        own[place] = _charged(machines.machine(worker), flops * batches[worker] / fmean(batches))
    every = tuple(terms[place % len(terms)] for place in range(last)) if terms else ()
    return dataclasses.replace(machines, machines=tuple(own), terms=every, places=tuple(places))


def simulate_timing(
    train: Train,
    *,
    workers: int,
    strategy: str | Strategy,
    steps: int,
    on: Simulator,
) -> Run:
    """Time `steps` steps of `train` at each of `workers` virtual workers, without computing gradients.

    Costs, messages and waiting are as in a full run whose steps are all alike and which computes nothing else, such as evaluations;
    codecs encode zeros, so those whose packets depend on the values (Threshold, Significant) send less than in training. Steps that were
    measured are charged as they were, in rotation. Gradients that are sent in backward(), or awaited in the forward pass, are so at the
    times of a measured step. Raises CompositionError for several optimizers, and for payloads whose size depends on training.
    """
    return time_shape(shape_of(train), workers=workers, strategy=strategy, steps=steps, on=on)


def time_shape(shape: StepShape, *, workers: int, strategy: str | Strategy, steps: int, on: Simulator) -> Run:
    """Time training like `simulate_timing`, with a training function that was observed already."""
    replayed, crew, zeros, timed = _replayed(shape, workers, strategy, steps, on)
    return run(replayed, workers=crew, strategy=zeros, on=timed)


def watched_timing(shape: StepShape, *, workers: int, strategy: str | Strategy, steps: int, on: Simulator, watch: Watch) -> Outcome:
    """Time training like `time_shape`, without a line that shows progress; what `watch` raises at an event ends it."""
    replayed, crew, zeros, timed = _replayed(shape, workers, strategy, steps, on)
    return attempt(replayed, workers=crew, strategy=zeros, on=timed, watch=watch).completed()


def _replayed(
    shape: StepShape, workers: int, strategy: str | Strategy, steps: int, on: Simulator
) -> tuple[Replay, int, Strategy, Simulator]:
    """The training function that replays the shape, for so many workers, and the strategy and machines with which it does."""
    timed = dataclasses.replace(on, devices=charging(fleet(on.devices), shape.flops), separate_randomness=False)
    chosen, workers = systems.resolve(strategy), Crew.of(workers).number("A timing")
    travelling = shape.zeros(chosen.workers(workers) * shape.samples) if chosen.shuffle.sends else ()
    merges = any(each.merge_seconds(1) > 0 for each in fleet(timed.devices).machines)
    taking = in_program if merges else in_coroutine
    return Replay(shape, steps, travelling, taking), workers, sending_zeros(chosen), timed
