"""What a worker costs beside a bare torch process: start-up, memory, and processor time while it waits.

    python benchmarks/overhead.py [--rounds 5] [--json FILE]

Start-up: from pr.run to the end of the first step, in an interpreter that has imported torch, less what a new process takes to import
torch and to take a step (which imports the compiler that torch.optim uses); the first run of an interpreter, and a later one.
Memory: resident and proportional (shared pages shared out) megabytes of the worker after a step, less those of the bare process.
Waiting: processor time of a worker that waits for another one's sum for two seconds, as a part of one core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

STEP = """
import torch, time
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
print(time.time())
"""
MEMORY = """
lines = open('/proc/self/smaps_rollup').read().splitlines()
found = dict((line.split(':')[0], int(line.split()[1])) for line in lines[1:])
print(found['Rss'], found['Pss'])
"""
OURS = """
import time, torch
import polyrhythm as pr

def train(worker):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    worker.attach(model, optimizer)
    worker.count(1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    arrived = time.time()
    lines = open('/proc/self/smaps_rollup').read().splitlines()
    found = dict((line.split(':')[0], int(line.split()[1])) for line in lines[1:])
    if worker.rank:
        time.sleep(2)
    began = time.process_time()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    worker.report(arrived=arrived, cpu=time.process_time() - began, rss=found['Rss'], pss=found['Pss'])

for _ in range(2):
    began = time.time()
    run = pr.run(train, workers=2, strategy='allreduce', on=pr.Processes())
    seen = next(event.metrics for event in run.outcome.events if getattr(event, 'metrics', None) and event.actor == 'worker/0')
    print(seen['arrived'] - began, seen['cpu'] / 2, seen['rss'], seen['pss'])
"""


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: dict[str, list[float]] = {"first start": [], "later start": [], "resident MB": [], "proportional MB": [], "waiting": []}
    for _ in range(given.rounds):
        bare_seconds, bare_rss, bare_pss = bare()
        lines = subprocess.run([sys.executable, "-"], input=OURS, capture_output=True, text=True, check=True).stdout.split("\n")
        first, later = ([float(word) for word in line.split()] for line in lines[:2])
        rows["first start"].append(first[0] - bare_seconds)
        rows["later start"].append(later[0])
        rows["resident MB"].append((first[2] - bare_rss) / 1024)
        rows["proportional MB"].append((first[3] - bare_pss) / 1024)
        rows["waiting"].append(first[1])
    print("| a worker beside a bare torch process | median (least to greatest) |\n|---|---|")
    units = {"first start": "s more", "later start": "s in all", "resident MB": "more", "proportional MB": "more", "waiting": "of a core"}
    for name, values in rows.items():
        print(f"| {name} | {statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g}) {units[name]} |")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


def bare() -> tuple[float, float, float]:
    """Seconds to start and import torch, and kilobytes resident and proportional."""
    began = time.time()
    arrived, memory = subprocess.run([sys.executable, "-c", STEP + MEMORY], capture_output=True, text=True, check=True).stdout.split("\n")[
        :2
    ]
    rss, pss = map(float, memory.split())
    return float(arrived) - began, rss, pss


if __name__ == "__main__":
    main()
