"""GeePS: memory that is planned from a trace, compared with demand paging, and rows by lists of indices."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

from polyrhythm.core import rng
from polyrhythm.core.simulator import Simulator
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.recurrent import RecurrentStack
from polyrhythm_reproductions.jobs.teacher import points
from polyrhythm_reproductions.paging import (
    AccessTrace,
    KeyedRows,
    PagedModel,
    Transfers,
    demand_seconds,
    plan_memory,
    planned_seconds,
    unlimited_seconds,
)
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_BATCH, _WORKERS = 4, 2
_SPEED = 1e9
_TRANSFER = 0.9
"""Seconds of copying everything that an iteration reads over those of computing."""
_SHARES = {"50 %": 0.5, "25 %": 0.25}
_ROWS, _KEYS, _REPEATS = 20_000, 2_000, 5


def measure(trial: ArmTrial) -> Figures:
    """Virtual seconds of an iteration by plan and by demand, bits of weights, and real seconds of reads."""
    trace = _trace()
    seconds = [each.flops / _SPEED for each in trace.operations]
    read = sum(trace.nbytes(each.reads) for each in trace.operations)
    copies, whole = Transfers(read / (_TRANSFER * sum(seconds))), unlimited_seconds(seconds)
    budgets = {name: int(share * trace.working_set) for name, share in _SHARES.items()}
    plans = {name: plan_memory(trace, budget) for name, budget in budgets.items()}
    demand = {name: demand_seconds(trace, budget, seconds, copies) / whole for name, budget in budgets.items()}
    return {
        **{f"planned {name}": planned_seconds(made, seconds, copies) / whole for name, made in plans.items()},
        "demand": min(demand.values()),
        "peak": max(made.peak / budgets[name] for name, made in plans.items()),
        "other bits": _other_bits(trial, budgets),
        "lists": _lists(trial),
    }


def _trace() -> AccessTrace:
    """The trace of one iteration, with more memory than it needs."""
    x, y = points(512)[0].tensors
    with rng.unmoved():
        torch.manual_seed(0)
        model = RecurrentStack(SgdRecipe(0.05), 1, _BATCH).build()
    paged = PagedModel(model, 1 << 30)
    with paged.iteration():
        F.cross_entropy(model(x[:_BATCH]), y[:_BATCH]).backward()  # type: ignore[no-untyped-call]
    return paged.trace


def _other_bits(trial: ArmTrial, budgets: dict[str, int]) -> float:
    """The number of runs that end with other weights than the one with unlimited memory."""
    samples = trial.size(512, 128)
    on = Simulator(network="lan", seed=trial.seed)
    runs = {
        name: trial.train(name, RecurrentStack(SgdRecipe(0.05), 1, _BATCH, budget, samples), "geeps", _WORKERS, on)
        for name, budget in ({"unlimited": None} | budgets).items()
    }
    return float(sum(run.arm.weights_sha256 != runs["unlimited"].arm.weights_sha256 for run in runs.values()))


def _lists(trial: ArmTrial) -> float:
    """Real seconds of reading a batch key by key over those by its list, the least of a few each."""
    keys = [f"row {k}" for k in range(_ROWS)]
    table = KeyedRows(keys, torch.zeros(_ROWS, 16))
    chosen = [keys[k] for k in rng.stream(trial.seed, "rows").choice(_ROWS, _KEYS, replace=False)]
    batch = table.prepare(chosen)
    each, listed = [], []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        table.read_each(chosen)
        between = time.perf_counter()
        table.read(batch)
        each.append(between - began)
        listed.append(time.perf_counter() - between)
    return min(each) / min(listed)


REPRODUCTION = Reproduction(
    name="geeps",
    systems=("geeps",),
    paper="Cui, Zhang, Ganger, Gibbons, Xing: GeePS: Scalable deep learning on distributed GPUs with a GPU-specialized parameter server "
    "(EuroSys 2016)",
    setting="A recurrent stack of 8 layers of 48 (20,500 parameters), gone through 4 times, in batches of 4, so that layers are used in "
    "the same order again and again: a cyclic sequence over more than the budget. Computing at 1 GFLOP/s; copying all that an iteration "
    "reads takes 0.9 times as long as computing.",
    baseline="unlimited",
    notes="Seconds of an iteration are virtual, from its recorded trace: of one iteration like the others, not of a whole training. "
    "Weights are those of whole trainings of two workers in little memory. Where layers are used once forwards and once backwards, "
    "demand paging finds as much as the budget holds at each turn, and stalls less than here.",
    measure=measure,
    claims=(
        Claim(
            paper="Memory for half of what a model uses costs little, since copies go on beside computing.",
            ours="seconds of an iteration by plan in 50 % of the working set over those without a limit",
            figure="planned 50 %",
            unit="x",
            most=1.2,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Models several times as large as the memory can be trained.",
            ours="seconds of an iteration by plan in 25 % of the working set over those without a limit",
            figure="planned 25 %",
            unit="x",
            most=1.2,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Copying on demand would stall.",
            ours="seconds of an iteration with demand paging over those without a limit, the less in 50 and 25 %",
            figure="demand",
            unit="x",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="What is in fast memory never exceeds its size.",
            ours="most bytes of a plan over the budget",
            figure="peak",
            unit="ratio",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Where data are does not change what is computed.",
            ours="runs in 50 and 25 % whose weights have other bits than without a limit",
            figure="other bits",
            unit="trials",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Lists of indices that are made once make batched reads fast.",
            ours="real seconds of reading 2,000 rows key by key over those by a list",
            figure="lists",
            unit="x",
            least=5.0,
            efficiency=Efficiency.REAL,
        ),
        Claim(
            paper="13 times the throughput of one GPU on 16 machines.",
            untestable="There are no GPUs here, and copies on CUDA streams are not written.",
        ),
    ),
)
