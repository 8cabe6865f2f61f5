"""A report that keeps every rule, from which the tests make others that do not."""

from __future__ import annotations

from typing import Any

import msgspec

from polyrhythm_reproductions.arm import Arm, ArmPoint
from polyrhythm_reproductions.findings import Circumstances, Finding, ReproductionReport
from polyrhythm_reproductions.protocol import Efficiency, Scaling


def arm(name: str, seed: int, **changes: Any) -> Arm:
    """One run of a report that keeps every rule."""
    plain = Arm(
        name=name,
        run=f"{name} {seed}",
        seed=seed,
        settings="Job(lr=0.1)",
        config="c0ffee",
        metric="loss",
        split="held-out",
        final=0.5,
        curve=[ArmPoint(0, 0.0, 2.3), ArmPoint(10, 1.0, 0.5)],
        workers=4,
        batch=16,
        global_batch=64,
        dataset=1024,
        data="generated from a seed",
        data_wait="none",
        samples=1024,
        steps=16,
        seconds=1.0,
        emulated=True,
        hardware="Simulator('lan')",
        bytes_sent=1000,
    )
    return msgspec.structs.replace(plain, **changes)


def claim(**changes: Any) -> Finding:
    """A claim about virtual time."""
    plain = Finding(
        paper="It is faster.",
        ours="seconds of the dense run over those of ours",
        figure="speed-up",
        unit="x",
        bounds="at least 1.5",
        least=1.5,
        efficiency=Efficiency.SYSTEM.value,
        verdict="reproduced",
        values=[1.9, 2.0, 2.1, 2.0, 1.8],
        median=2.0,
        low=1.8,
        high=2.1,
    )
    return msgspec.structs.replace(plain, **changes)


def report(*arms: Arm, **changes: Any) -> ReproductionReport:
    """A report of five seeds; by default of two arms that differ in nothing but their names."""
    chosen = list(arms) or [arm(name, seed) for seed in range(5) for name in ("dense", "ours")]
    plain = ReproductionReport(
        name="crafted",
        systems=["allreduce"],
        paper="Somebody: A paper (2020)",
        setting="A job, in virtual time.",
        notes="",
        stop="after four epochs",
        baseline="dense",
        scaling=Scaling.NONE.value,
        machines="",
        quick=False,
        seeds=[0, 1, 2, 3, 4],
        verdict="reproduced",
        claims=[claim()],
        arms=chosen,
        tuning_runs={},
        circumstances=Circumstances(command="polyrhythm reproduce crafted", cores=2, jobs=2, threads=1, load=0.1, seconds=3.0, versions={}),
    )
    return msgspec.structs.replace(plain, **changes)
