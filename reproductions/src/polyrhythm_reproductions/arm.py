"""One run of a reproduction, with all that an honest report says of it. `ArmTrial` makes arms; the report and the rules read them."""

from __future__ import annotations

import msgspec


class ArmPoint(msgspec.Struct, array_like=True, frozen=True):
    """A point of a curve: steps of a worker, seconds, and the metric."""

    step: int
    seconds: float
    value: float


class Arm(msgspec.Struct, kw_only=True):
    """One run: `name` is what is compared, `run` tells it from all others.

    `settings` is what decides its result, and `config` their hash. `final` is the `metric` on `split`, and the worst value for a run that
    `diverged`; `batch` is that of one worker, `global_batch` of all; `dataset` the samples to train on. `seconds` are virtual where
    `emulated`; `hardware` names devices and network. `tuning_runs` were made to choose its settings.
    """

    name: str
    run: str
    seed: int
    settings: str
    config: str
    metric: str
    split: str
    final: float
    curve: list[ArmPoint]
    workers: int
    batch: int
    global_batch: int
    dataset: int
    data: str
    data_wait: str
    samples: int
    steps: int
    seconds: float
    emulated: bool
    hardware: str
    bytes_sent: int
    tuning_runs: int = 0
    diverged: bool = False
    weights_sha256: str | None = None
