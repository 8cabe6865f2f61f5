"""What `onebit`, `softsync`, `strom` and `downpour` lose against one worker depends on the optimizer: chars-gpt under four of them.

    python benchmarks/optimizers.py

Every system has the same grid of learning rates under an optimizer, tried with a seed that is not measured; then three seeds at the best
one. 640 steps of 16 samples, by one worker or by four of 4 samples each, on `lan` in virtual time. Runs that have ended are kept in
benchmarks/results/optimizers.json, and the same command goes on from there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm.core.atomic import write
from polyrhythm.errors import DivergedError, RunError
from polyrhythm.tools.report.repeats import spread
from polyrhythm.workloads.chars import CharsGpt, bits_per_character, corpus, network, windows
from polyrhythm_reproductions.jobs.recipes import AdagradRecipe, AdamWRecipe, OptimizerRecipe, SgdRecipe

FILE = Path(__file__).parent / "results" / "optimizers.json"
TUNING_SEED, SEEDS = 1000, (0, 1, 2)
GLOBAL_BATCH, WORKERS = 16, 4

OPTIMIZERS: dict[str, tuple[Callable[[float], OptimizerRecipe], tuple[float, ...]]] = {
    "AdamW": (AdamWRecipe, (0.001, 0.002, 0.004, 0.008)),
    "AdamW, beta1 = 0": (lambda rate: AdamWRecipe(rate, beta=0.0), (0.001, 0.002, 0.004, 0.008)),
    "Adagrad": (AdagradRecipe, (0.005, 0.01, 0.02, 0.04)),
    "SGD, momentum 0.9": (lambda rate: SgdRecipe(rate, 0.9), (0.02, 0.05, 0.1, 0.2)),
}
SYSTEMS = ("single", "onebit", "softsync", "strom", "downpour")
OWN = {"downpour": "Adagrad"}
"""Its servers run Adagrad, whatever the worker's optimizer is."""


def combinations() -> list[tuple[str, str]]:
    """Systems and optimizers."""
    return [(system, name) for name in OPTIMIZERS for system in SYSTEMS if OWN.get(system, name) == name]


@dataclass(frozen=True)
class Training:
    """As chars-gpt, without evaluations on the way."""

    recipe: OptimizerRecipe
    batch_size: int

    def __call__(self, worker: pr.Worker) -> None:
        """Once through the windows."""
        shape, gpt = CharsGpt(), network(CharsGpt())
        attached, optimizer = worker.attach(gpt, self.recipe.build(gpt.parameters()))
        for x, y in worker.batches(windows(corpus().training, shape.context, shape.samples), batch_size=self.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(attached(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()


def bits(system: str, optimizer: str, rate: float, seed: int) -> float:
    """Bits per character of the final weights on the validation text; infinite where the run diverges. Raises what else goes wrong."""
    workers = 1 if system == "single" else WORKERS
    training = Training(OPTIMIZERS[optimizer][0](rate), GLOBAL_BATCH // workers)
    try:
        run = pr.run(training, workers=workers, strategy=system, on=pr.Simulator(), seed=seed)
    except DivergedError:
        return math.inf
    except RunError as problem:
        if not isinstance(problem.__cause__, DivergedError):
            raise
        return math.inf
    gpt = network(CharsGpt())
    gpt.load_state_dict(run.weights)
    return bits_per_character(gpt.eval(), corpus().validation, CharsGpt(), "cpu")


def kept() -> dict[str, float]:
    """The runs that have ended: bits by system, optimizer, rate and seed."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, float]) if FILE.exists() else {}


def look_up(runs: dict[str, float], system: str, optimizer: str, rate: float, seed: int) -> float:
    """From what is kept, or by a run that is kept then."""
    key = f"{system}; {optimizer}; {rate:g}; seed {seed}"
    if key not in runs:
        found = bits(system, optimizer, rate, seed)
        runs[key] = found if found < float("inf") else 99.0  # JSON has no infinity
        write(FILE, msgspec.json.format(msgspec.json.encode(runs), indent=1))
        print(f"{key}: {runs[key]:.3f}", file=sys.stderr, flush=True)
    return runs[key]


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    runs = kept()
    rows: dict[str, dict[str, str]] = {system: {} for system in SYSTEMS}
    for system, optimizer in combinations():
        grid = OPTIMIZERS[optimizer][1]
        best = min(grid, key=lambda rate: look_up(runs, system, optimizer, rate, TUNING_SEED))
        found = spread([look_up(runs, system, optimizer, best, seed) for seed in SEEDS])
        rows[system][optimizer] = f"{found.median:.3f} ({found.least:.3f} to {found.greatest:.3f}) at {best:g}"
    print(f"| | {' | '.join(OPTIMIZERS)} |\n|---|{'---|' * len(OPTIMIZERS)}")
    for system, row in rows.items():
        print(f"| `{system}` | {' | '.join(row.get(name, '') for name in OPTIMIZERS)} |")


if __name__ == "__main__":
    main()
