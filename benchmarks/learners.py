"""Every learner of the lists on 1 to 4 real processes and 16 virtual workers, under three systems each: which run, and what each comes to.

    OMP_NUM_THREADS=1 python benchmarks/learners.py [--only LightLDA,A3C] [--json FILE] [--page docs/learners.md]

A run is short: it shows that a learner trains under a system, not how well. Also the sum of LightLDA's table while workers are killed,
leave and join, in virtual time and on real processes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polyrhythm as pr
from polyrhythm.core.records.metrics import curve_of
from polyrhythm.errors import PolyrhythmError
from polyrhythm.hardware.faults import Crash, Fault, Join, Leave
from polyrhythm.workloads import Lda
from polyrhythm.workloads.lda import divided
from polyrhythm_reproductions.jobs.every_learner import LEARNERS, Learner

PROCESSES, VIRTUAL, SYSTEMS, SEED = (1, 2, 3, 4), 16, 3, 1
STEPS = pr.hardware.Profile("a step of 1 ms", (1e-3,))
COUNTED = Lda(topics=6, sweeps=6, documents=200, length=40, vocabulary=150, blocks=4)
CREWS: dict[str, tuple[Fault, ...]] = {
    "one of four is lost": (Crash("worker/2", at=0.0112),),
    "two are lost, worker 0 among them": (Crash("worker/0", at=0.0071), Crash("worker/1", at=0.0132)),
    "one leaves, two join": (Leave("worker/1", at=0.006), Join(at=0.012), Join(at=0.015)),
}
KILLED = (Crash("worker/1", step=5), Join(at=2.0))


def tried(learner: Learner, system: str, workers: int, on: Any) -> dict[str, Any]:
    """A run: its metric at the beginning and at the end, or the sentence by which it failed."""
    began, metric = time.monotonic(), learner.job.metric.name
    try:
        run = pr.run(learner.job, workers=workers, strategy=system, on=on, seed=SEED)
    except PolyrhythmError as problem:
        return {"error": str(problem)}
    curve = [event.metrics[metric] for event in curve_of(run.outcome, metric)]
    found = {"steps": run.summary.steps, "samples": run.summary.samples, "seconds": round(time.monotonic() - began, 2)}
    return {"metric": metric, "first": curve[0], "final": run.final[metric], **found}


def learned(name: str) -> dict[str, Any]:
    """All runs of a learner, by system and place."""
    learner, found = LEARNERS[name], dict[str, Any]()
    for system in learner.systems[:SYSTEMS]:
        places: dict[str, tuple[int, Any]] = {f"{workers}": (workers, pr.Processes()) for workers in PROCESSES}
        places[f"{VIRTUAL} virtual"] = VIRTUAL, pr.Simulator(devices=STEPS)
        found[system] = {}
        for place, (workers, on) in places.items():
            found[system][place] = tried(learner, system, workers, on)
            print(name, system, place, found[system][place], file=sys.stderr, flush=True)
    return found


def counted() -> list[dict[str, Any]]:
    """The sum of LightLDA's table whenever it was looked at, less the number of tokens, in crews that change."""
    tokens = divided(COUNTED.all_documents(SEED))[0].tokens
    runs = [(name, "virtual", pr.Crew(1, 4), pr.Simulator(network="lan", devices=STEPS, faults=faults)) for name, faults in CREWS.items()]
    crew = pr.Crew(1, 3)
    runs.append(("worker 1 of three is killed, one joins", "real", crew, pr.Processes(faults=KILLED, timeout=60.0)))  # type: ignore[arg-type]
    rows = []
    for name, time_of, workers, on in runs:
        run = pr.run(COUNTED, workers=workers, strategy="ssp", on=on, seed=SEED)
        sums = [event.metrics["tokens"] for event in curve_of(run.outcome, "tokens")]
        away = max(abs(each - tokens) for each in sums)
        rows.append({"crew": name, "time": time_of, "lost": run.summary.lost, "tokens": tokens, "looks": len(sums), "away": away})
    return rows


def shown(cell: dict[str, Any]) -> str:
    """A cell of the table."""
    if "error" in cell:
        return "refused" if "compos" in cell["error"] else "failed"
    return "not finite" if not math.isfinite(cell["final"]) else f"{cell['final']:.3g}"


def table(runs: dict[str, Any]) -> Iterator[str]:
    """The lines of the table of runs."""
    places = [*map(str, PROCESSES), f"{VIRTUAL} virtual"]
    yield f"| learner | system | metric, at the beginning | {' | '.join(places)} |"
    yield f"|---|---|---|{'--:|' * len(places)}"
    for name, systems in runs.items():
        for system, cells in systems.items():
            first = next((f"{cell['metric']}, {cell['first']:.3g}" for cell in cells.values() if "metric" in cell), "")
            yield f"| {name} | `{system}` | {first} | {' | '.join(shown(cells[place]) for place in places)} |"


def page(found: dict[str, Any]) -> str:
    """The page of the documentation."""
    cells = [cell for systems in found["runs"].values() for places in systems.values() for cell in places.values()]
    complete = sum("error" not in cell and math.isfinite(cell["final"]) for cell in cells)
    lines = [
        "# Every learner, on processes and in virtual time",
        "",
        f"*This page is written by `{found['command']}`.*",
        "",
        f"{complete} of {len(cells)} runs ended with a metric that is a number, on {found['cores']} cores at a load of {found['load']:g} "
        f"at the beginning, in {found['seconds'] / 60:.0f} minutes. A run is short, a second or so of work: it shows that a learner trains "
        "under a system, and not how well; for that see [networks](learners-networks.md), [topics and senses](learners-topic-models.md), "
        "[actors](learners-actors.md), [whole batches](whole-batches.md) and the [reproductions](reproductions/index.md). Columns are "
        "numbers of real processes, and 16 virtual workers; cells have the metric on held-out data of the final weights, with one seed. "
        "More workers take fewer steps each; those few are too short for the classes of the belief net and the modes of the GAN, and "
        "mostly too short for 16 actors.",
        "",
        *table(found["runs"]),
        "",
        "## Which systems cannot",
        "",
        *(f"- {name}: {each.why}." for name, each in LEARNERS.items() if each.why),
        "",
        "## The sum of LightLDA's table",
        "",
        "Each token counts once in the table, whoever is lost. `looks` is how often the whole table was added up during the run; tests "
        "look at every clock of every server too (`tests/workloads/topics/test_lda.py`).",
        "",
        "| crew, under `ssp` | time | lost | tokens | looks | greatest difference |",
        "|---|---|---|--:|--:|--:|",
        *(
            f"| {row['crew']} | {row['time']} | {', '.join(row['lost']) or 'none'} | {row['tokens']:,} | {row['looks']} | {row['away']:g} |"
            for row in found["sums"]
        ),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all, print the table, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(LEARNERS), help="learners, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    began, load = time.monotonic(), os.getloadavg()[0]
    runs = {name: learned(name) for name in options.only.split(",")}
    found: dict[str, Any] = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/learners.py --json benchmarks/results/learners.json --page docs/learners.md",
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "runs": runs,
        "sums": counted(),
    }
    found["seconds"] = round(time.monotonic() - began, 1)
    print("\n".join(table(runs)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.page:
        options.page.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
