"""This machine as a device, from steps that were timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from polyrhythm.hardware.devices import Device, Profile, device_json, load
from polyrhythm.tools.measuring.machine_speed import NAME, fitted, machine_here

X = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
STEP = Profile(NAME, (0.01, 0.012, 0.011))


@dataclass(frozen=True)
class Job:
    epochs: int = 1
    batch_size: int = 4

    def __call__(self, worker: Any) -> None:
        model = torch.nn.Linear(8, 8)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(self.epochs):
            for (x,) in worker.batches((X,), batch_size=self.batch_size):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()


def without_settings(worker: Any) -> None:
    Job()(worker)


def test_what_grows_with_the_operations_is_the_speed_and_the_rest_the_overhead() -> None:
    machine = fitted(STEP, (1e6, 0.011), (4e6, 0.014))
    assert isinstance(machine, Device)
    assert machine.flops == pytest.approx(1e9)
    assert machine.overhead_seconds == pytest.approx(0.01)
    assert machine.step_seconds(1e6, 0) == pytest.approx(0.011)
    bare = fitted(STEP, (1e6, 0.001), (4e6, 0.005))  # the larger one took more than four times as long
    assert (bare.step_seconds(1e6, 0), bare.step_seconds(2e6, 0)) == pytest.approx((0.001, 0.002))
    flat = fitted(STEP, (1e6, 0.01), (4e6, 0.009))
    assert [flat.step_seconds(flops, 0) for flops in (1e6, 4e6)] == pytest.approx([0.01, 0.01], rel=0.02)
    assert fitted(STEP, (0.0, 0.01), (0.0, 0.01)) is STEP


def test_a_job_with_a_batch_is_timed_with_two_of_them_and_gets_more_epochs_to_be_timed_in(tmp_path: Any) -> None:
    seen: list[Any] = []

    def timed(train: Any) -> Profile:
        seen.append(train)
        return Profile("job", (0.001 + 1e-4 * train.batch_size,))

    machine = machine_here(Job(), "job.py", {"batch_size": "8"}, timed)
    assert [(job.epochs, job.batch_size) for job in seen] == [(8, 8), (8, 32)]
    assert isinstance(machine, Device)
    assert machine.name == NAME
    assert machine.overhead_seconds == pytest.approx(0.001, rel=0.1)
    path = tmp_path / "device.json"
    path.write_text(device_json(machine))
    assert load(path) == machine


def test_a_job_without_a_batch_is_charged_as_it_was_timed_and_the_device_is_not_named_after_it() -> None:
    assert machine_here(without_settings, "job.py", {}, lambda train: Profile("without_settings", (0.1, 0.2))) == Profile(NAME, (0.1, 0.2))
