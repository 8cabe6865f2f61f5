"""ShareDraws docs/demo.svg, the picture of the README, from what `make demo` has left in runs/demo.

python docs/draw_demo.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from polyrhythm.core.kernel.events import AnyEvent, Evaluated
from polyrhythm.core.records.load import load
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.plot import metric_over_time

TARGET = Target("bits", 3.4)
SHOWN_BITS = 4.6
"""Above are the first steps, which all have in common."""


def drawn(outcome: Outcome) -> Outcome:
    """The part of a run that tells it from the others, under a name that says where it ran."""
    events: list[AnyEvent] = [event for event in outcome.events if isinstance(event, Evaluated) and event.metrics["bits"] < SHOWN_BITS]
    summary = outcome.summary
    name = f"{summary.system} over {summary.network}" if summary.workers > 1 else "one machine"
    return replace(outcome, summary=msgspec.structs.replace(summary, system=name), events=events)


def draw(runs: Path, picture: Path) -> None:
    """One line for each virtual run of the demo."""
    folders = sorted(path.parent for path in runs.glob("simulator-*/*/run.json"))
    chart = metric_over_time([drawn(load(folder)) for folder in folders], target=TARGET)
    chart.title.text = "Sixteen Raspberry Pis on two networks, and one alone: bits per character"
    chart.padding = {"left": 5, "top": 5, "right": 40, "bottom": 5}  # fonts of who looks at it may be wider
    chart.save(picture)


if __name__ == "__main__":
    draw(Path("runs/demo"), Path(__file__).parent / "demo.svg")
