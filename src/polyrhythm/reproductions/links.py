"""What a step costs: the bytes that actors send each other, and virtual seconds, as differences of a longer and a shorter run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polyrhythm.kernel.events import Sent
from polyrhythm.training.result import Run

FEW, MANY = 2, 4
"""Steps of the two runs, so that what is sent once, at the beginning and the end, does not count."""


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes by sender and receiver, and virtual seconds."""

    links: Mapping[tuple[str, str], float]
    seconds: float


def step(go: Callable[[int], Run]) -> Step:
    """What a step costs; `go` runs so many steps on a simulator, which has to record sends for the bytes."""
    few, many = go(FEW), go(MANY)
    before, after = _sent(few), _sent(many)
    links = {pair: (after[pair] - before[pair]) / (MANY - FEW) for pair in after}
    return Step(links, (many.outcome.time - few.outcome.time) / (MANY - FEW))


def bytes_per_step(go: Callable[[int], Run]) -> Mapping[tuple[str, str], float]:
    """Bytes of a step by sender and receiver; `go` runs so many steps on a simulator that records sends."""
    return step(go).links


def seconds_per_step(go: Callable[[int], Run]) -> float:
    """Virtual seconds of a step; `go` runs so many steps."""
    return step(go).seconds


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
