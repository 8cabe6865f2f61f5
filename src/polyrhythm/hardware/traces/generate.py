"""Generates the traces in this folder: `python -m polyrhythm.hardware.traces.generate`. The same seed gives the same bytes.

Nothing in them was measured. They have the properties that are published of spot instances (Thorpe et al., Bamboo, NSDI 2023; Duan et al.,
Parcae, NSDI 2024): preemptions come in bursts, nearly all of a burst are in one zone, and replacements come one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

import msgspec

from polyrhythm.core.streams import stream
from polyrhythm.hardware.faults.trace import TRACES, TraceLine


@dataclass(frozen=True, slots=True)
class SpotMarket:
    """`instances` over `zones`, dealt in turn. A burst begins in a random zone `bursts_per_hour`, and has a geometric size of mean `burst`.

    A replacement comes an exponential time after the preemption, of mean `back_after` seconds, in any zone. `notice` is in seconds.
    """

    name: str
    bursts_per_hour: float
    burst: float
    back_after: float
    notice: float
    instances: int = 16
    zones: int = 3
    hours: float = 12.0

    def lines(self, seed: int) -> list[TraceLine]:
        """The events of `hours`, by time; they name no worker, so that they fit any run."""
        draws, zones = stream(seed, "traces", self.name), "abcdefgh"[: self.zones]
        present = {f"worker/{k}": zones[k % len(zones)] for k in range(self.instances)}
        due: list[tuple[float, str]] = [(float(draws.exponential(3600 / self.bursts_per_hour)), "leave")]
        found, number = list[TraceLine](), self.instances
        while due and due[0][0] < 3600 * self.hours:
            at, kind = heappop(due)
            if kind == "join":
                zone = zones[int(draws.integers(len(zones)))]
                found.append(TraceLine(round(at, 1), "join", zone=zone))
                present[f"worker/{number}"], number = zone, number + 1
                continue
            heappush(due, (at + float(draws.exponential(3600 / self.bursts_per_hour)), "leave"))
            zone = zones[int(draws.integers(len(zones)))]
            chosen = [name for name, where in present.items() if where == zone][: int(draws.geometric(1 / self.burst))]
            for name in chosen[: len(present) - 1]:
                del present[name]
                at += float(draws.exponential(1.0))
                found.append(TraceLine(round(at, 1), "leave", notice=self.notice, zone=zone))
                heappush(due, (at + self.notice + float(draws.exponential(self.back_after)), "join"))
        return sorted(found, key=lambda line: line.at)

    def text(self, seed: int) -> str:
        """The file: what it is, then a line for each event."""
        about = [
            f"# Generated, not measured, from the seed {seed} by `python -m polyrhythm.hardware.traces.generate`: {self.name}",
            f"# {self.instances} workers in {self.zones} zones over {self.hours:g} h; {self.bursts_per_hour:g} bursts of preemptions an",
            f"# hour, each of {self.burst:g} workers of one zone on average; a replacement {self.back_after:g} s later on average; "
            f"{self.notice:g} s of notice.",
        ]
        return "\n".join([*about, *(msgspec.json.encode(line).decode() for line in self.lines(seed))]) + "\n"


MARKETS = (
    SpotMarket("spot-calm", bursts_per_hour=0.5, burst=1.5, back_after=600.0, notice=120.0),
    SpotMarket("spot-bursty", bursts_per_hour=1.5, burst=3.0, back_after=900.0, notice=30.0),
    SpotMarket("spot-scarce", bursts_per_hour=1.0, burst=4.0, back_after=5400.0, notice=30.0),
)


def write(folder: Path = TRACES, seed: int = 0) -> None:
    """Write the traces of all markets into `folder`."""
    for market in MARKETS:
        (folder / f"{market.name}.jsonl").write_text(market.text(seed))


if __name__ == "__main__":
    write()
