"""BigDL: synchronous SGD as stateless tasks over a block store, which are done again where they are lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from polyrhythm.core.kernel.events import Reported, Stepped
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Crash, FaultSource, Stall
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher, student
from polyrhythm_reproductions.jobs.whole_numbers import WholeNumbers
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import StepCost, of_machine, step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS = 4
_WIDE = Teacher(width=400, batch_size=1)
_MODEL = 4 * sum(parameter.numel() for parameter in student(_WIDE.width, _WIDE.depth).parameters())
_BESIDE = replace(Network.uniform("beside", 125e6, 1e-5), placement=WithWorkers())
_EVEN = Simulator(network=_BESIDE, devices=Device("instant", 1e18), record_sends=True)
_SLOW = Network.uniform("slow", "50 Mbit/s", "20 ms")
_STEP = 3
_PARTS = (0.6, 0.7, 0.8, 0.95)
_LATE, _STALLED = 0.5, 20.0


def measure(trial: ArmTrial) -> Figures:
    """Bytes of a machine, seconds of a step compared with an all-reduce's, and the fate of a step whose task is lost or late."""
    job = Teacher(SgdRecipe(0.03, 0.9), epochs=trial.size(2, 1))
    dense, stored = (trial.train(name, job, name, _WORKERS).final for name in ("allreduce", "bigdl"))
    store, ring = (_step(name, _WORKERS).seconds for name in ("bigdl", "allreduce"))
    return {
        "bytes": max(map(_bytes_of_the_busiest, (2, 4, 8))) / _MODEL,
        "over all-reduce": store / ring,
        "other steps": float(_other_steps()),
        "waited": _waited(),
        "difference": abs(dense - stored),
    }


def _step(system: str, workers: int) -> StepCost:
    return step_cost(timed(_WIDE, system, workers, _EVEN))


def _bytes_of_the_busiest(workers: int) -> float:
    """The most that a machine with a worker and its slice sends, or receives, in a step."""
    machines = of_machine(_step("bigdl", workers).links, rank_of)
    return max(max(both) for both in machines.values())


def _went(*faults: FaultSource, late: float = _LATE) -> Run:
    on = Simulator(network=_SLOW, devices=Profile("measured", (0.01,)), faults=faults)
    return run(WholeNumbers(), workers=_WORKERS, strategy=find("bigdl", retry_seconds=late), on=on, seed=1)


def _history(result: Run) -> list[dict[str, float]]:
    """The weights of worker 0 after each step."""
    return [dict(event.metrics) for event in result.outcome.events if isinstance(event, Reported) and event.actor == "worker/0"]


def _ends(result: Run) -> list[float]:
    """The times at which worker 0 ended its steps."""
    return [event.time for event in result.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"]


def _moments() -> list[float]:
    """Moments of a step, after its gradients were published."""
    before, after = _ends(_went())[_STEP - 1 : _STEP + 1]
    return [before + part * (after - before) for part in _PARTS]


def _other_steps() -> int:
    """The steps with other weights than without a loss, or missing: up to the one with the loss, and of all where a worker is late."""
    whole = _history(_went())
    crashed = [_history(_went(Crash("worker/2", at=moment)))[: _STEP + 1] for moment in _moments()]
    stalled = [_history(_went(Stall("worker/2", at=moment, duration=_STALLED))) for moment in _moments()]
    wanted = [*((found, whole[: _STEP + 1]) for found in crashed), *((found, whole) for found in stalled)]
    return sum(one != other for found, expected in wanted for one, other in zip_longest(found, expected))


def _waited() -> float:
    """The duration of the step in which a worker is held up for 20 seconds, over its duration where nobody else does its task."""
    stall = Stall("worker/2", at=_moments()[0], duration=_STALLED)
    redone, waiting = (_ends(_went(stall, late=late)) for late in (_LATE, 10 * _STALLED))
    return (redone[_STEP] - redone[_STEP - 1]) / (waiting[_STEP] - waiting[_STEP - 1])


REPRODUCTION = Reproduction(
    name="bigdl",
    systems=("bigdl",),
    paper="Dai et al.: BigDL, A Distributed Deep Learning Framework for Big Data (SoCC 2019)",
    setting=(
        f"Bytes are counted of a perceptron of {_MODEL // 4:,} parameters on 2, 4 and 8 workers, each with a slice beside it; its steps "
        "are timed on 4 over lines of 1 Gbit/s, beside a ring, on devices whose computing takes no time: computing / communication is 0. "
        "Losses and delays are in a least-squares problem of whole numbers on 4 workers, over 50 Mbit/s and 20 ms; a task is late after "
        "half a second. A worker crashes, or stands still for 20 seconds, at four moments after the gradients of a step were published. "
        "Losses on held-out points are of a perceptron that learns the classes of a random network."
    ),
    notes="Time is that of steps without arithmetic: only the exchange is run, and no quality belongs to these seconds.",
    baseline="allreduce",
    measure=measure,
    claims=(
        Claim(
            paper="In an iteration each node transfers twice the size of the parameters at most.",
            ours="bytes that the busiest machine sends, or receives, over those of the model, with 2, 4 and 8 workers",
            figure="bytes",
            unit="ratio",
            most=2.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Synchronization by tasks and blocks costs what a ring all-reduce does.",
            ours="time of a step over that of a ring all-reduce",
            figure="over all-reduce",
            unit="ratio",
            most=1.2,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="A task that fails is simply run again, for it has no state.",
            ours="steps with other weights in any bit than without a loss or delay, or that are missing",
            figure="other steps",
            unit="steps",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A task that is late need not be waited for.",
            ours="length of the step in which a worker stands still, over its length where nobody does its task",
            figure="waited",
            unit="ratio",
            most=0.2,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="It is synchronous SGD.",
            ours="difference of the losses on held-out points to an all-reduce",
            figure="difference",
            unit="nats",
            most=1e-3,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A gradient whose worker is lost is computed again.",
            untestable="Not built: a training function cannot be asked for a gradient again; the step goes on with those of the others.",
        ),
    ),
)
