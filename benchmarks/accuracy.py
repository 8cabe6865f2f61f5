"""What the systems learn: the final metric of every system on a workload, over seeds, at equal samples.

    python benchmarks/accuracy.py digits-cnn --workers 4 --seeds 0 1 2 3 4
    python benchmarks/accuracy.py chars-gpt --workers 4 --seeds 0 1 --set batch_size=4 --single batch_size=16

`--set` settings hold for every system but `single`, `--single` ones for it alone: with P workers of batch b the baseline's batch is
P b, so that all take equally many steps over equally many samples. `--option tau=5` is an option of the system, where one is named.
Virtual time (network lan, device cpu-core), real gradients. Prints a table in Markdown, and with --json FILE
keeps the numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import polyrhythm as pr


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--systems", nargs="+", default=list(pr.systems.SYSTEMS))
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--single", nargs="*", default=[])
    parser.add_argument("--option", nargs="*", default=[])
    parser.add_argument("--network", default="lan")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    options = {name: json.loads(value) for name, value in (pair.split("=") for pair in given.option)}
    rows = {}
    for system in given.systems:
        settings = dict(pair.split("=") for pair in (given.single if system == "single" else given.set))
        strategy = pr.systems.find(system, **options)
        rows[system] = [final(given.workload, settings, strategy, given.workers, given.network, seed) for seed in given.seeds]
        print(line(system, rows[system]), flush=True)
        if given.json:
            given.json.write_text(json.dumps({**vars(given), "json": None, "rows": rows}, indent=2) + "\n")


def final(workload: str, settings: dict[str, str], strategy: pr.Strategy, workers: int, network: str, seed: int) -> dict[str, float]:
    """The final metrics of one run, with its bytes and virtual seconds; empty if it diverged."""
    try:
        run = pr.run(pr.load_workload(workload, settings), workers=workers, strategy=strategy, on=pr.Simulator(network=network), seed=seed)
    except pr.PolyrhythmError as error:
        print(f"{strategy.name}, seed {seed}: {error}")
        return {}
    summary = run.summary
    return {**run.final, "samples": summary.samples, "steps": summary.steps, "bytes": summary.bytes_sent}


def line(system: str, runs: list[dict[str, float]]) -> str:
    """One row: system, the median, least and greatest of each metric, steps, bytes."""
    cells = [system]
    for metric in [name for name in (runs[0] or {"diverged": 0}) if name not in ("samples", "steps", "bytes")]:
        values = [run[metric] for run in runs if metric in run]
        cells.append(f"{metric} {statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})" if values else "diverged")
    if runs[0]:
        cells += [f"{runs[0]['samples']:.0f} samples", f"{runs[0]['steps']:.0f} steps", f"{runs[0]['bytes'] / 1e6:.1f} MB"]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
