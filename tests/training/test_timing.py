"""A run that only keeps time takes the time of the full run, and sends its bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kinds import fewest
from torch.nn import functional as F
from toy import SLOW, Toy, data, network

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.events import Reported, Stepped
from polyrhythm.errors import CompositionError

from .scenes import EVERY_SYSTEM, IN_CYCLES

TOY = Toy(epochs=2, batch_size=4)  # 3 workers: 8 steps of 4 samples an epoch


COUNTED = pr.Device("slow core", 1e7)
PACES = (pr.hardware.Jitter(0.3), pr.hardware.RandomStragglers(0.1, 5.0), pr.hardware.Mixed((1.0, 0.5)))
HARDWARE = {
    "overhead": pr.Simulator(network=pr.Instant(), devices=pr.Device("dear", 1e7, overhead_seconds=1.0)),
    "network": pr.Simulator(network=SLOW, devices=COUNTED),
    "paces": pr.Simulator(network=pr.Instant(), devices=pr.hardware.Fleet((pr.Device("slow core", 1e7, 1e-3),), PACES), seed=3),
    "measured": pr.Simulator(network=SLOW, devices=pr.hardware.Profile("measured", (0.1, 0.3, 0.2), seconds_per_contribution=0.004)),
}
VALUES_DECIDE = ("asysg-incon", "strom", "dl4j-sharing", "actors-decentralised", "dlion", "li-ps")
"""Their packets hold what exceeds a threshold, so zeros are less, as is asserted; nobody waits for them, and steps end when they would."""
BETWEEN_CYCLES = ("overhead", "paces")
"""Hardware on which tensors of systems in cycles are ready in other cycles than without values, so that they send other messages."""
OWN_BATCHES = "paces"
"""Hardware on which workers differ in speed, so that those that set their own batches take other samples when they are measured."""


ROUNDING = 1e-9
INEXACT = {
    **dict.fromkeys(("byteps", "mxnet-worker-update"), ("network", "paces")),
    "collective-allreduce": ("network",),
    **dict.fromkeys(IN_CYCLES, ("overhead", "network", "paces")),
    "dlion": ("network", "paces"),
    **dict.fromkeys(("asysg-incon", "li-ps"), ("network", "measured")),
}
"""Hardware on which steps end up to a twentieth earlier or later, and not to the rounding as all others, which is asserted. Gradients leave
inside of a step (and byteps waits for them inside of the next): replayed as in a measured step, by elements. What the last three send
depends on their values."""


def stepped(run: pr.Run) -> list[float]:
    """When worker 0 ended its steps."""
    return [event.time for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"]


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))
def test_time_and_bytes_are_those_of_the_full_run(system: str, hardware: str) -> None:
    full = pr.run(TOY, workers=3, strategy=system, on=HARDWARE[hardware])
    steps = len(stepped(full))
    timed = pr.simulate_timing(TOY, workers=3, strategy=system, steps=steps, on=HARDWARE[hardware])
    inexact, cycles = hardware in INEXACT.get(system, ()), 2e-3 if system in IN_CYCLES else 0.0
    tolerance = 0.05 if inexact else ROUNDING
    assert stepped(timed) == pytest.approx(stepped(full), rel=tolerance, abs=cycles)
    assert (stepped(timed) != pytest.approx(stepped(full), rel=ROUNDING)) is inexact
    assert timed.summary.steps == full.summary.steps
    own_batches = bool(systems.find(system).shuffle.takes) and hardware == OWN_BATCHES
    assert (timed.summary.samples != full.summary.samples) is own_batches
    between_cycles = system in IN_CYCLES and hardware in BETWEEN_CYCLES
    if system in VALUES_DECIDE:
        assert timed.summary.bytes_sent < full.summary.bytes_sent
    else:
        assert (timed.summary.bytes_sent != full.summary.bytes_sent) is between_cycles
        assert (timed.summary.messages_sent != full.summary.messages_sent) is between_cycles
    if system not in VALUES_DECIDE and not between_cycles:
        assert timed.summary.virtual_seconds == pytest.approx(full.summary.virtual_seconds, rel=tolerance, abs=cycles)


def test_selections_by_module_find_their_modules() -> None:
    strategy = pr.Strategy(selected=((pr.parameters.Modules("Linear"), pr.Exchange(topology=pr.topology.Server(2))),))
    full = pr.run(TOY, workers=3, strategy=strategy, on=HARDWARE["network"])
    timed = pr.simulate_timing(TOY, workers=3, strategy=strategy, steps=len(stepped(full)), on=HARDWARE["network"])
    assert stepped(timed) == pytest.approx(stepped(full), rel=1e-9)


def with_buffers(worker: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(10, 12), torch.nn.BatchNorm1d(12), torch.nn.Linear(12, 3))
    model[0].requires_grad_(False)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in worker.batches(data(), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("system", ["allreduce", "ssp", "sparknet"])
def test_frozen_parameters_and_buffers_are_timed_alike(system: str) -> None:
    on = pr.Simulator(network=SLOW, devices=COUNTED)
    full, timed = (
        pr.run(with_buffers, workers=3, strategy=system, on=on),
        pr.simulate_timing(with_buffers, workers=3, strategy=system, steps=4, on=on),
    )
    assert timed.summary.virtual_seconds == pytest.approx(full.summary.virtual_seconds, rel=1e-9)
    assert timed.summary.bytes_sent == full.summary.bytes_sent


class Named(torch.nn.Module):
    """Its tensors have names that differ by a dot, and names that a replay might take for its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(10, 3)
        self.a_weight = torch.nn.Parameter(torch.zeros(500))
        self.frozen = torch.nn.Parameter(torch.zeros(30))
        self.buffer_0 = torch.nn.Parameter(torch.zeros(7), requires_grad=False)
        self.register_buffer("a_bias", torch.zeros(20))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.a(x) + self.a_weight.sum() + self.frozen.sum()
        return scores


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("system", ["allreduce", "softsync", "gossipgrad"])
def test_what_is_sent_does_not_depend_on_how_tensors_are_named(system: str, dtype: torch.dtype) -> None:
    def train(worker: Any) -> None:
        model = Named().to(dtype)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x.to(dtype)), y).backward()
            optimizer.step()

    on = pr.Simulator(network=SLOW, devices=COUNTED)
    full, timed = pr.run(train, workers=3, strategy=system, on=on), pr.simulate_timing(train, workers=3, strategy=system, steps=4, on=on)
    assert timed.summary.bytes_sent == full.summary.bytes_sent
    assert timed.summary.virtual_seconds == pytest.approx(full.summary.virtual_seconds, rel=1e-9)


def test_several_optimizers_are_refused_with_the_remedy() -> None:
    def train(worker: Any) -> None:
        pairs = []
        for _ in range(2):
            model = network()
            pairs.append(worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1)))
        for x, _ in worker.batches(data(), batch_size=8):
            for model, optimizer in pairs:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()

    with pytest.raises(CompositionError, match=r"attaches 2 optimizers.*time a full run"):
        pr.simulate_timing(train, workers=2, strategy="allreduce", steps=2, on=pr.Simulator(network=pr.Instant()))


@pytest.mark.parametrize("system", fewest(system for system in EVERY_SYSTEM if not systems.find(system).chooses))
def test_every_system_pays_the_overhead_of_every_step(system: str) -> None:
    on = pr.Simulator(network=pr.Instant(), devices=pr.Device("dear", 1e15, overhead_seconds=1.0))
    full = pr.run(Toy(epochs=10, batch_size=12), workers=2, strategy=system, on=on)
    steps = 80 if system == "single" else 40
    rest = 1e-3 if system in IN_CYCLES else 1e-6  # up to a cycle after the last gradient
    assert full.summary.virtual_seconds == pytest.approx(steps, rel=rest)
    assert stepped(full) == pytest.approx([float(n) for n in range(1, steps + 1)], rel=rest)


@pytest.mark.parametrize("devices", [pr.Device("dear", 1e15, 1.0), pr.hardware.Profile("measured", (1.0,))], ids=["counted", "measured"])
def test_what_is_reported_between_exchanges_carries_its_own_time(devices: pr.Device | pr.hardware.Profile) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in worker.batches(data(), batch_size=1):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            worker.report(step=worker.clock)

    on = pr.Simulator(network=pr.Instant(), devices=devices)
    events = pr.run(train, workers=2, strategy=pr.Strategy(consistency=pr.consistency.LocalSteps(20)), on=on).outcome.events
    reports = {event.metrics["step"]: event.time for event in events if isinstance(event, Reported)}
    assert [reports[step] for step in (1, 19, 20, 39)] == pytest.approx([1.0, 19.0, 20.0, 39.0], rel=1e-6)


def test_uneven_machines_keep_their_pace() -> None:
    fleet = pr.hardware.Fleet((pr.Device("fast", 1e9), pr.Device("slow", 1e6)))
    on = pr.Simulator(network=pr.Instant(), devices=fleet)
    timed = pr.simulate_timing(TOY, workers=2, strategy="allreduce", steps=10, on=on)
    alone = pr.simulate_timing(
        TOY, workers=2, strategy="allreduce", steps=10, on=pr.Simulator(network=pr.Instant(), devices=pr.Device("slow", 1e6))
    )
    assert timed.summary.virtual_seconds == pytest.approx(alone.summary.virtual_seconds)


def test_a_training_function_that_takes_no_step_is_refused() -> None:
    with pytest.raises(CompositionError, match="took no step"):
        pr.simulate_timing(Toy(epochs=0), workers=2, strategy="allreduce", steps=2, on=pr.Simulator(network=pr.Instant()))
