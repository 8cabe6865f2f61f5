"""Data parallelism within one box: the gradient is that of one GPU, however the batch is divided."""

from __future__ import annotations

from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.tensor_parallel import Columns, Rows
from polyrhythm_reproductions.jobs.adversaries import Adversaries
from polyrhythm_reproductions.jobs.differences import largest_difference
from polyrhythm_reproductions.jobs.modes import weights_of
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_BATCH = 64
_TWO_D = Cut({"*.up": Columns(), "*.down": Rows()})


def measure(trial: ArmTrial) -> Figures:
    """One step at a learning rate of 1, so that weights differ by as much as gradients do."""
    whole = trial.train("single", _job(1), "single", 1)
    found = [trial.train(f"yadan on {workers}", _job(workers), "yadan", workers) for workers in (2, 4)]
    found.append(trial.train("tree on 4", _job(4), "tree", 4))
    reversed_part = trial.train("yadan on 4, one part reversed", Adversaries(_job(4), 1), "yadan", 4)
    apart, wrong = (max(_apart(whole, each) for each in runs) for runs in (found, [reversed_part]))
    one = weights_of(trial.seed)
    grids = [weights_of(trial.seed, mesh, replicas, cut=_TWO_D) for mesh, replicas in ((Mesh(dp=1, tp=4), 1), (Mesh(dp=2, tp=2), 2))]
    return {"difference": apart / wrong, "grid": max(largest_difference(one, each) for each in grids)}


def _apart(one: Result, other: Result) -> float:
    return largest_difference(one.outcome.weights, other.outcome.weights)


def _job(workers: int) -> Teacher:
    return Teacher(SgdRecipe(1.0), epochs=1, batch_size=_BATCH // workers, samples=_BATCH)


REPRODUCTION = Reproduction(
    name="yadan",
    systems=("yadan",),
    paper="Yadan, Adams, Taigman, Ranzato: Multi-GPU Training of ConvNets (2013, arXiv:1312.5853)",
    setting=(
        "One step of plain SGD on one batch of 64 (teacher, 20,500 parameters): whole, in 2 parts and in 4, exchanged directly and over "
        "a tree. And two residual blocks (1,400 parameters) in columns and rows, on 4 workers and on 2 by 2, for 20 steps."
    ),
    baseline="single",
    scaling=Scaling.STRONG,
    measure=measure,
    notes=(
        "The learning rate is 1, and what is compared is one gradient: the accuracies of these runs say nothing. A comparison of "
        "layouts in closed form would be one of the formulas that went into it, and is left out."
    ),
    claims=(
        Claim(
            paper="Dividing a batch over GPUs does not change what is computed.",
            ours="largest difference of any element of the gradient from that of the whole batch, over the same where one part of four has "
            "the wrong sign",
            figure="difference",
            unit="ratio",
            most=1e-4,
            efficiency=Efficiency.EXACT,
            changed="what is measured, from the difference alone, at most 1e-05, because no run that must fail was beside it",
        ),
        Claim(
            paper="Dividing the model over GPUs does not change what is computed either.",
            ours="largest difference of any weight of two residual blocks from those of one process after 20 steps, over four workers with "
            "the model, and over the grid of two by two",
            figure="grid",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="On four GPUs, data parallelism over two pairs and model parallelism within them is faster than either alone.",
            untestable="It depends on the lines within one box and on kernels of GPUs, and there are no measurements of either here.",
        ),
    ),
)
