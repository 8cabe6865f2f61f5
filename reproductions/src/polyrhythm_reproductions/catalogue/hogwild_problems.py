"""Hogwild!'s own problems: a sparse support vector machine, matrix completion and graph cuts on shared weights without locks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polyrhythm.core.processes import Processes
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.workloads import GraphCuts, MatrixCompletion, SparseSvm
from polyrhythm_reproductions.pace import steps_per_second
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial

_HOGWILD = "hogwild"
_STEP = 1e-3
_WORKERS = {"1 worker": 1, "2 workers": 2}
PROBLEMS: dict[str, tuple[Any, str, int]] = {
    "svm": (SparseSvm(batch_size=1, epochs=3, samples=1500, features=1000, learning_rate=0.1), "loss", 20),
    "completion": (MatrixCompletion(batch_size=1, epochs=3, ratings=2000, users=60, items=30, learning_rate=0.05), "training_rmse", 2),
    "cuts": (GraphCuts(batch_size=1, epochs=3, edges=1500, nodes=200, terminals=10, learning_rate=0.05), "loss", 2),
}
"""Each problem, the loss that is compared, and the rows that a step writes."""


def measure(trial: ArmTrial) -> Figures:
    """The loss of two workers over that of one at equal epochs, rows written a step, and steps a second of real processes."""
    found = dict[str, float]()
    for name, (whole, metric, rows) in PROBLEMS.items():
        job = replace(whole, epochs=trial.size(whole.epochs, 1))
        runtime = Simulator(devices=Profile("a step of 1 ms", (_STEP,)), seed=trial.seed)
        losses = [trial.train(f"{name}, {arm}", job, find(_HOGWILD), workers, runtime).metric(metric) for arm, workers in _WORKERS.items()]
        found[f"worse {name}"] = losses[1] / losses[0]
        one, two = (_run(trial, replace(job, epochs=1), workers) for workers in _WORKERS.values())
        found[f"rows {name}"] = (two.summary.row_writes or 0) / two.summary.samples / rows
        found[f"speed-up {name}"] = steps_per_second(two) / steps_per_second(one)
    return found


def _run(trial: ArmTrial, job: Any, workers: int) -> Outcome:
    return attempt(job, workers=workers, strategy=find(_HOGWILD), on=Processes(seed=trial.seed), seed=trial.seed).completed()


_TITLES = {"svm": "sparse SVM", "completion": "matrix completion", "cuts": "graph cuts"}


def _claims(name: str) -> tuple[Claim, ...]:
    return (
        Claim(
            paper=f"Without locks {_TITLES[name]} converges as the serial scheme does.",
            ours=f"{PROBLEMS[name][1].replace('_', ' ')} of 2 workers over that of 1, after as many epochs",
            figure=f"worse {name}",
            unit="ratio",
            least=0.98,
            most=1.02,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper=f"A step of {_TITLES[name]} writes the few components that its sample touches.",
            ours=f"rows written for a sample over the {PROBLEMS[name][2]} that it touches, counted by real processes",
            figure=f"rows {name}",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper=f"Nearly linear speed-ups on {_TITLES[name]}.",
            ours="samples a second of 2 real processes over those of 1",
            figure=f"speed-up {name}",
            unit="ratio",
            least=1.4,
            efficiency=Efficiency.REAL,
        ),
    )


REPRODUCTION = Reproduction(
    name="hogwild-problems",
    systems=(_HOGWILD,),
    paper="Niu, Recht, Ré, Wright: Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent (NIPS 2011), section 5",
    setting=(
        "The paper's three problems, with data that are generated: hinge loss on 20 of 1,000 features, the known entries of a "
        "matrix of 60 x 30, and a cut of a graph of 200 nodes into 3 groups. Batches of 1, a rate that decays by 0.9 after each of "
        "3 epochs. Losses in virtual time (a step takes 1 ms, and writes what it computed on the weights that were there when it "
        "began); rows and speeds of real processes on this machine."
    ),
    notes=(
        "The paper's data are RCV1, Netflix, KDD Cup 2011, Jumbo, DBLife and Abdomen, with up to 10 threads; here there are two "
        "processes on two cores, and a step of Python and PyTorch takes most of the time, so that a speed-up says little of a step "
        "in C++. Rates were chosen by hand, the same for both arms."
    ),
    baseline="svm, 1 worker",
    scaling=Scaling.WEAK,
    measure=measure,
    claims=(
        *_claims("svm"),
        *_claims("completion"),
        *_claims("cuts"),
        Claim(paper="Speed-ups on up to 10 cores.", untestable="This machine may have two."),
    ),
)
