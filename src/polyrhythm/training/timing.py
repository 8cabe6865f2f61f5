"""Runs that only keep time: one worker is watched for a few steps, and all workers then replay its shape without its arithmetic."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from statistics import median
from types import MethodType

import torch
from torch import nn

from polyrhythm import systems
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.fleet import Fleet, fleet
from polyrhythm.kernel.events import AnyEvent, Computed, Stepped
from polyrhythm.simulator import Instant, Simulator
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.tensors import Layout
from polyrhythm.training.result import Run
from polyrhythm.training.run import Train, attempt, run
from polyrhythm.training.worker import Worker

WATCHED_STEPS = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """What a training function asks of a worker at each step: its tensors, its floating-point operations, its samples."""

    layout: Layout
    flops: float
    samples: int


class _SeenEnoughError(PolyrhythmError):
    """Ends the watched run."""


def shape_of(train: Train, seed: int = 0) -> Shape:
    """Watch the first steps of `train` at one worker, in virtual time.

    Raises CompositionError if it takes none.
    """
    held: list[Worker] = []
    flops, samples, pending = [], [], 0.0

    def watched(worker: Worker) -> None:
        held.append(worker)
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
                raise _SeenEnoughError

    on = Simulator(network=Instant(), devices=Device("one operation a second", 1.0))
    tried = attempt(watched, workers=1, strategy=systems.find("single"), on=on, seed=seed, watch=watch)
    if tried.error is not None and not isinstance(tried.error, _SeenEnoughError):
        raise tried.error
    if not flops:
        raise CompositionError("The training function took no step at one worker, so there is nothing to time: check its data and epochs.")
    return Shape(held[0].layout, median(flops), samples[-1] // len(samples))


@dataclass(frozen=True, slots=True)
class Replay:
    """A training function of a given shape: `steps` steps that exchange zeros and compute nothing."""

    shape: Shape
    steps: int

    def __call__(self, worker: Worker) -> None:
        """Take the steps; time passes by the runtime's profile."""
        model = _Tensors(self.shape.layout)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        optimizer.step = MethodType(_stand_still, optimizer)  # type: ignore[method-assign]
        model, optimizer = worker.attach(model, optimizer)
        for _ in range(self.steps):
            worker.count(self.shape.samples)
            if worker.overlaps:
                _go_backward(model)
            optimizer.step()


def _go_backward(model: nn.Module) -> None:
    """Give every parameter a gradient of zeros, the last first, as a backward pass would."""
    for parameter in reversed(list(model.parameters())):
        parameter.grad = None
        parameter.backward(torch.zeros_like(parameter))  # type: ignore[no-untyped-call]


def _stand_still(optimizer: torch.optim.Optimizer) -> None:
    """A step from zeros by zeros."""


class _Tensors(nn.Module):
    """Parameters of the names and shapes of a layout, all zero."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        for name, size in zip(layout.names, layout.shapes, strict=True):
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.zeros(size)))


def time(
    train: Train,
    *,
    workers: int,
    strategy: str | Strategy,
    steps: int,
    on: Simulator,
) -> Run:
    """Time `steps` steps of `train` at each of `workers` virtual workers, without computing gradients.

    Costs, messages and waiting are as in a full run whose steps are all alike; codecs say zeros, so those whose packets depend on the
    values (Threshold, Significant) send less than in training. `on.devices` must count operations.
    """
    shape = shape_of(train)
    machines = fleet(on.devices)
    if any(machine.measured for machine in machines.machines):
        raise CompositionError("A timing-only run needs devices that count operations, and a measured profile does not: name a device.")
    profiles = tuple(Profile(machine.name, (machine.seconds(shape.flops, 0),)) for machine in machines.machines)
    timed = dataclasses.replace(on, devices=Fleet(profiles, machines.paces, machines.server), separate_randomness=False)
    return run(Replay(shape, steps), workers=workers, strategy=strategy, on=timed)
