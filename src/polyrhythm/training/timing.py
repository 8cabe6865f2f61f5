"""Timing-only runs: one worker is observed for a few steps, and all workers then replay these without their arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from types import MethodType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from polyrhythm import systems
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware.devices import Device, Machine, Profile
from polyrhythm.hardware.fleet import fleet
from polyrhythm.kernel.events import AnyEvent, Computed, Stepped
from polyrhythm.kernel.group import Group
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.controller import ControlledSetting, Controls
from polyrhythm.pieces.sharded import BackgroundSums, ShardedSource
from polyrhythm.pieces.shuffle import Batch, Feed, Follow, Order, Perform, ShardFeed, Source, Stream, unfollowed
from polyrhythm.shuffle import GlobalShuffle
from polyrhythm.simulator import Instant, Simulator
from polyrhythm.strategy.part import Part
from polyrhythm.strategy.replica import Replica
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.tensors import Layout
from polyrhythm.training.result import Run
from polyrhythm.training.run import attempt, run
from polyrhythm.training.work import Train
from polyrhythm.training.worker import Worker

WATCHED_STEPS = 4


@dataclass(frozen=True, slots=True)
class StepShape:
    """The size of a training function's step: its tensors, its floating-point operations, its samples; a batch of them.

    `frozen` parameters and `buffers`, by name, are exchanged when a run begins and ends. `classes` are the names of each module's classes.
    """

    layout: Layout
    flops: float
    samples: int
    batch: Any = ()
    frozen: Mapping[str, Tensor] = field(default_factory=dict)
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def zeros(self, count: int) -> tuple[Tensor, ...]:
        """Tensors of `count` samples of zeros like the batch's; none where samples are not tensors, or do not come from `batches`."""
        parts = self.batch if isinstance(self.batch, (tuple, list)) and all(isinstance(part, Tensor) for part in self.batch) else ()
        return tuple(part.new_zeros(()).expand(count, *part.shape[1:]) for part in parts)


@dataclass(frozen=True, slots=True)
class _Noting:
    """Distributes samples as usual, and keeps the first batch."""

    batches: list[Any]
    sends: bool = False
    takes: frozenset[ControlledSetting] = frozenset()

    def feed(self, group: Group, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Noted(GlobalShuffle().feed(group, port, perform, controls, follow), self.batches)

    def stream(self, stream: Stream, group: Group, number: int, batch_size: int) -> Iterator[Batch]:
        """One worker's batches of one pass over a stream."""
        return GlobalShuffle().stream(stream, group, number, batch_size)

    def sharded(self, source: ShardedSource, group: Group, totals: BackgroundSums, batch_size: int) -> ShardFeed:
        """One worker's batches of its shard."""
        return GlobalShuffle().sharded(source, group, totals, batch_size)

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        """One worker's samples of epoch `number`."""
        return GlobalShuffle().share(order, group, number)


@dataclass(frozen=True, slots=True)
class _Noted:
    feed: Feed
    batches: list[Any]

    def count(self, source: Source, batch_size: int) -> int:
        return self.feed.count(source, batch_size)

    def epoch(self, source: Source, number: int, batch_size: int) -> Iterator[Batch]:
        for samples, batch in self.feed.epoch(source, number, batch_size):
            if not self.batches:
                self.batches.append(batch)
            yield samples, batch

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        self.feed.skip(source, number, batch_size, batches)


class _EnoughStepsError(PolyrhythmError):
    """Ends the observed run."""


def shape_of(train: Train, seed: int = 0) -> StepShape:
    """Observe the first steps of `train` at one worker, in virtual time.

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
    alone = dataclasses.replace(systems.find("single"), shuffle=_Noting(batches))
    tried = attempt(watched, workers=1, strategy=alone, on=on, seed=seed, watch=watch)
    if tried.error is not None and not isinstance(tried.error, _EnoughStepsError):
        raise tried.error
    if not flops:
        raise CompositionError("The training function took no step at one worker, so there is nothing to time: check its data and epochs.")
    replica = _only(held[0].attached)
    model, parameters = replica.model, _only_part(replica).parameters
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


@dataclass(frozen=True, slots=True)
class Replay:
    """A training function of a given shape: `steps` steps that exchange zeros and compute nothing.

    `batches` are the samples of a step of all workers, where samples travel.
    """

    shape: StepShape
    steps: int
    batches: tuple[Tensor, ...] = ()

    def __call__(self, worker: Worker) -> None:
        """Take the steps; time passes by the runtime's profile."""
        model = _zeros(self.shape)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        optimizer.step = MethodType(_stand_still, optimizer)  # type: ignore[method-assign]
        model, optimizer = worker.attach(model, optimizer)
        _refuse_unknown_sizes(worker.attached)
        batches = self._batches(worker)
        for _ in range(self.steps):
            for _ in batches:
                if worker.overlaps:
                    _go_forward(model)
                    _go_backward(model)
                optimizer.step()

    def _batches(self, worker: Worker) -> Iterable[Any]:
        """One batch, each time that it is iterated."""
        if self.batches:
            return worker.batches(self.batches, batch_size=self.shape.samples)
        return _Counted(worker, self.shape.samples)


@dataclass(frozen=True, slots=True)
class _Counted:
    """One batch of so many `samples`, which are counted and not there."""

    worker: Worker
    samples: int

    def __iter__(self) -> Iterator[None]:
        self.worker.count(self.samples)
        yield None


def _refuse_unknown_sizes(attached: tuple[Replica, ...]) -> None:
    for part in (part for replica in attached for part in replica.parts):
        if part.agreement.payload.is_sized_by_data:
            raise CompositionError(
                f"A timing-only run computes no gradients, and {part.agreement.codec!r} sends {part.agreement.payload.value}, whose size "
                "depends on them: time a full run."
            )


def _go_forward(model: nn.Module) -> None:
    """Call every module, the first first: what a forward pass waits for is waited for."""
    for module in model.modules():
        module(None)


def _go_backward(model: nn.Module) -> None:
    """Give every parameter a gradient of zeros, the last first, as a backward pass would."""
    for parameter in reversed(list(model.parameters())):
        parameter.grad = None
        parameter.backward(torch.zeros_like(parameter))  # type: ignore[no-untyped-call]


def _stand_still(optimizer: torch.optim.Optimizer) -> None:
    """A step from zeros by zeros."""


def _zeros(shape: StepShape) -> nn.Module:
    """A model of `shape`, all zero, in which every tensor has its own name: servers get the names, and two must not become one."""
    model = _named_after(tuple(shape.classes.get("", ())))()
    for path, classes in shape.classes.items():  # parents come first
        parent, _, last = path.rpartition(".")
        if path:
            model.get_submodule(parent).add_module(last, _named_after(tuple(classes))())
    for name, size in zip(shape.layout.names, shape.layout.shapes, strict=True):
        owner, last = _owner(model, name)
        owner.register_parameter(last, nn.Parameter(torch.zeros(size, dtype=shape.dtype)))
    for name, each in shape.frozen.items():
        owner, last = _owner(model, name)
        owner.register_parameter(last, nn.Parameter(torch.zeros_like(each), requires_grad=False))
    for name, each in shape.buffers.items():
        owner, last = _owner(model, name)
        owner.register_buffer(last, torch.zeros_like(each))
    return model


class _Still(nn.Module):
    """Takes anything and computes nothing."""

    def forward(self, x: object) -> None:
        return None


@cache
def _named_after(classes: tuple[str, ...]) -> type[nn.Module]:
    """What modules are that compute nothing, and whose classes have these names: a selection may go by them."""
    kind: type[nn.Module] = _Still
    for name in reversed(classes[: classes.index("Module")] if "Module" in classes else ()):
        kind = type(name, (kind,), {})
    return kind


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module within `model` that has the tensor `name`, and the last part of the name."""
    path, _, last = name.rpartition(".")
    return model.get_submodule(path), last


def _charging(machine: Machine, flops: float) -> Machine:
    """The same machine as one that counts nothing: its steps have `flops` operations."""
    return machine if machine.measured else Profile(machine.name, (machine.step_seconds(flops, 0),))


def time(
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
    shape = shape_of(train)
    machines = fleet(on.devices)
    profiles = tuple(_charging(machine, shape.flops) for machine in machines.machines)
    timed = dataclasses.replace(on, devices=dataclasses.replace(machines, machines=profiles), separate_randomness=False)
    chosen = systems.resolve(strategy)
    travelling = shape.zeros(chosen.workers(workers) * shape.samples) if chosen.shuffle.sends else ()
    return run(Replay(shape, steps, travelling), workers=workers, strategy=chosen, on=timed)
