"""Made-up but likely outcomes: thirteen systems with seeded events."""

from __future__ import annotations

import math

import numpy as np

from polyrhythm.core.kernel.events import AnyEvent, Computed, Ended, Reported, Started, Stepped, Waited
from polyrhythm.core.records.outcome import Outcome, Summary

# seconds of waiting and bytes for each exchange, steps between exchanges, how well it learns
SYSTEMS: dict[str, tuple[float, float, int, float]] = {
    "single": (0.0, 0.0, 1, 1.0),
    "allreduce": (0.45, 2.6e6, 1, 1.0),
    "direct": (0.08, 2.6e6, 1, 1.0),
    "tree": (0.7, 2.6e6, 1, 1.0),
    "downpour": (0.3, 2.8e6, 1, 0.8),
    "ssp": (0.22, 2.8e6, 1, 0.9),
    "softsync": (0.25, 2.8e6, 1, 0.85),
    "sparknet": (0.45, 2.6e6, 10, 0.8),
    "easgd": (0.3, 2.8e6, 8, 0.7),
    "onebit": (0.06, 1.2e5, 1, 0.9),
    "strom": (0.03, 4.1e4, 1, 0.75),
    "gossipgrad": (0.12, 1.3e6, 1, 0.8),
    "diloco": (0.45, 2.6e6, 25, 0.7),
}


def outcome(system: str = "ssp", *, workers: int = 16, on: str = "simulator", steps: int = 60, seed: int = 7) -> Outcome:
    """A run of `system` whose workers compute about 0.1 s a step, wait for their exchanges, and report every tenth step."""
    wait, nbytes, every, skill = SYSTEMS[system]
    many = 1 if system == "single" else workers
    draw = np.random.default_rng([seed, sorted(SYSTEMS).index(system)])
    clocks, sent, samples = np.zeros(many), 0.0, 0
    events: list[AnyEvent] = [Started(0.0, f"worker/{rank}") for rank in range(many)]
    final: dict[str, float] = {}
    for step in range(1, steps + 1):
        exchange = step % every == 0
        sent += nbytes * many * exchange
        samples += 32 * many
        for rank in range(many):
            spent = float(draw.gamma(20, 0.005)) * (1.8 if rank == 3 else 1.0)
            waited = float(wait * draw.uniform(0.7, 1.3)) if exchange else 1e-4
            clocks[rank] += spent
            events.append(Computed(float(clocks[rank]), f"worker/{rank}", spent))
            clocks[rank] += waited
            events.append(Waited(float(clocks[rank]), f"worker/{rank}", waited))
            events.append(Stepped(float(clocks[rank]), f"worker/{rank}", step, samples // many, int(sent)))
        if step % 5 == 0:
            loss = 2.3 * math.exp(-skill * step / 15) + 0.08 + float(draw.normal(0, 0.015))
            final = {"loss": loss, "accuracy": min(1.0, 0.985 - 0.86 * math.exp(-skill * step / 9) + float(draw.normal(0, 0.006)))}
            events.append(Reported(float(clocks[0]), "worker/0", step, final, int(sent)))
            if many > 1:
                events.append(Reported(float(clocks[1]), "worker/1", step, {"loss": 9.0, "accuracy": 1.0}, int(sent)))
    events += [Ended(float(clocks[rank]), f"worker/{rank}", int(sent / many), steps) for rank in range(many)]
    end = float(clocks.max())
    virtual = on == "simulator"
    summary = Summary(
        system, many, on, "slow" if virtual else None, seed, steps, samples, None if virtual else end, end if virtual else None,
        int(sent), steps * many, final, "0f" * 32,
    )  # fmt: skip
    settings = {"strategy": f"Strategy(topology={system.title()}())", "runtime": f"{on}(...)", "train": "train"}
    return Outcome(summary, sorted(events, key=lambda event: event.time), settings=settings)


def failed(system: str, error: str = "worker/3 failed: RuntimeError: the loader is empty.\n\nTraceback: long") -> Outcome:
    """A run that ended in an error before it measured anything."""
    return Outcome(Summary(system, 16, "simulator", "slow", 7, error=error))


def plain(system: str, seconds: float, nbytes: int, curve: list[tuple[float, int, float]], **changes: object) -> Outcome:
    """A run that reports accuracy at (seconds, bytes, accuracy) and nothing else."""
    events: list[AnyEvent] = [
        Reported(time, "worker/0", index, {"accuracy": value}, sent) for index, (time, sent, value) in enumerate(curve)
    ]
    final = {"accuracy": curve[-1][2]} if curve else {}
    summary = Summary(system, 4, "simulator", "slow", 7, 10, 100, None, seconds, nbytes, 40, final)
    for name, value in changes.items():
        setattr(summary, name, value)
    return Outcome(summary, events)
