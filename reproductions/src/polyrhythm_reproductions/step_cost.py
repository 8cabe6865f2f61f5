"""The cost of a step: virtual seconds, bytes and messages, as differences of a longer and a shorter run. Reproductions call it for claims
about time and traffic, without training a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polyrhythm.core.kernel.events import Sent
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.work import Train
from polyrhythm.tools.measuring.timing import simulate_timing

Go = Callable[[int], Run]
"""Runs so many steps on a simulator."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """The cost of one step of all workers together: virtual seconds, bytes with their headers, messages.

    `links` has the bytes by sender and receiver, where the simulator records sends.
    """

    seconds: float
    nbytes: float
    messages: float
    links: Mapping[tuple[str, str], float]


def step_cost(go: Go, first: int = 2, steps: int = 2) -> StepCost:
    """The mean cost of the `steps` after the `first`: messages that are sent once, at the beginning and the end, are left out."""
    short, long = go(first), go(first + steps)
    before, after = _sent(short), _sent(long)
    return StepCost(
        (long.outcome.time - short.outcome.time) / steps,
        (long.summary.bytes_sent - short.summary.bytes_sent) / steps,
        ((long.summary.messages_sent or 0) - (short.summary.messages_sent or 0)) / steps,
        {pair: (after[pair] - before[pair]) / steps for pair in after},
    )


def timed(train: Train, strategy: str | Strategy, workers: int, on: Simulator) -> Go:
    """Steps of `train` without its arithmetic."""
    return lambda steps: simulate_timing(train, workers=workers, strategy=strategy, steps=steps, on=on)


def of_machine(links: Mapping[tuple[str, str], float], host: Callable[[str], object]) -> Mapping[object, tuple[float, float]]:
    """Bytes that each machine sends to others and receives of them, where `host` gives that of an actor."""
    sent: Counter[object] = Counter()
    received: Counter[object] = Counter()
    for (sender, to), nbytes in links.items():
        if host(sender) != host(to):
            sent[host(sender)] += nbytes  # type: ignore[assignment]
            received[host(to)] += nbytes  # type: ignore[assignment]
    return {name: (float(sent[name]), float(received[name])) for name in sent | received}


def _sent(run: Run) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for event in run.outcome.events:
        if isinstance(event, Sent):
            found[event.actor, event.to] += event.nbytes
    return found
