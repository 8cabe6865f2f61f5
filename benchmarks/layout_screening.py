"""How well the planner's screening of layouts agrees with runs: all layouts of a small GPT at two offices, each trained for some steps.

    python benchmarks/layout_screening.py --json benchmarks/results/layout_screening.json

Four workers, 50 Mbit/s and 20 ms between the offices (`networks/two_offices.json`), a device of 20 GFLOP/s. For each layout the predicted
seconds of a step, those of the run in virtual time, and the loss; then Kendall's τ of both, over all layouts.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import polyrhythm as pr
from polyrhythm.hardware import network
from polyrhythm.tools.layouts.agreement import kendall
from polyrhythm.workloads.gpt import Gpt, GptSize

NETWORK = Path(__file__).parent / "networks" / "two_offices.json"
SIZE = GptSize(vocabulary=65, context=64, layers=4, width=64, heads=4)
RULES = {"heads": "tp", "mlp": "tp"}


def loss(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def job() -> pr.LayoutJob:
    symbols = torch.randint(65, (256, 64), generator=torch.Generator().manual_seed(0))
    return pr.LayoutJob(partial(Gpt, SIZE), loss, partial(torch.optim.AdamW, lr=3e-3), (symbols, (7 * symbols + 3) % 65), 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    on = pr.Simulator(network=network.load(str(NETWORK)), devices=pr.Device("office", 2e10))
    space = pr.LayoutSpace(rules=(RULES,))
    plan = pr.plan_layouts(job(), on=on, workers=4, space=space, runs=pr.ShortRuns(layouts=0))
    runs, rows = pr.ShortRuns(steps=options.steps, last=1), list[dict[str, Any]]()
    for layout in plan.layouts:
        seen = runs.run(layout.candidate, job(), on)
        rows.append({"layout": layout.candidate.name, "predicted": layout.screened.seconds, "seen": seen.step_seconds, "loss": seen.loss})
        print(rows[-1], flush=True)
    tau = kendall([row["predicted"] for row in rows], [row["seen"] for row in rows])
    print(f"{len(rows)} layouts, Kendall's τ {tau:.3f}")
    if options.json:
        options.json.write_text(json.dumps({"load": os.getloadavg(), "kendall": tau, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
