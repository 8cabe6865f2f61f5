"""DQN, and Q-learning without a replay memory: what correlated frames do, and how replay and many actors undo it."""

from __future__ import annotations

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.workloads import ChainDqn, ChainQ
from polyrhythm_reproductions.jobs.recorded_updates import RecordedUpdates
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_SOLVED = 0.9
_TARGET = Target("score", _SOLVED)
_REPLAY, _ALONE, _FOUR, _SIXTEEN = "replay", "no replay", "no replay, 4 workers", "no replay, 16 workers"


def measure(trial: ArmTrial) -> Figures:
    """Scores with a replay memory and without, of one worker and of several; how alike successive updates are."""
    frames = trial.size(5_000, 3_000)
    replay = _train(trial, _REPLAY, RecordedUpdates(ChainDqn(frames=frames)), 1)
    alone, four, sixteen = (
        _train(trial, arm, RecordedUpdates(ChainQ(frames=frames)), workers) for arm, workers in ((_ALONE, 1), (_FOUR, 4), (_SIXTEEN, 16))
    )
    return {
        "replay": replay.final,
        "gain": replay.final - alone.final,
        "sixteen": sixteen.final,
        "alike": sixteen.metric("correlation") / alone.metric("correlation"),
        "speed": four.seconds_to(_TARGET) / sixteen.seconds_to(_TARGET),
    }


def _train(trial: ArmTrial, arm: str, job: RecordedUpdates, workers: int) -> Result:
    system = find("single") if workers == 1 else find("hogwild")
    return trial.train(arm, job, system, workers, Simulator(devices=Profile("a step of 1 ms", (1e-3,)), seed=trial.seed))


REPRODUCTION = Reproduction(
    name="dqn",
    systems=("hogwild",),
    paper="Mnih et al.: Human-level control through deep reinforcement learning (Nature 2015); Mnih et al.: Asynchronous Methods for Deep "
    "Reinforcement Learning (ICML 2016)",
    setting=(
        "Double Q-learning with a target network on a chain of 8 states whose best policy is known exactly, 5,000 frames of all workers, "
        "5 a step of 1 ms of virtual time: from a replay memory at one "
        "worker, and from the frames of each step alone at 1, 4 and 16 workers "
        "on shared weights, which explore by different shares of random actions. Solved is 90 % of the best value."
    ),
    notes=(
        "Scaled down from Atari games to a network of 32 hidden units. The bound of the speed-up is half of what the paper's one-step Q "
        "has from 4 to 16 workers (24.1 over 6.3); one worker is no base "
        "for it, since alone it may not solve the task. Learning rates were "
        "chosen in trial runs with the seeds 0 and 1, before the bounds were set. Updates are correlated by the cosine between one and the "
        "next, of whichever worker."
    ),
    baseline=_ALONE,
    scaling=Scaling.WEAK,
    measure=measure,
    claims=(
        Claim(
            paper="A network learns action values from a replay memory and a target network.",
            ours="share of the best value with replay",
            figure="replay",
            unit="1",
            least=_SOLVED,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Replay removes what correlated frames do to learning.",
            ours="share of the best value with replay, less that without, of one worker",
            figure="gain",
            unit="difference",
            least=0.2,
        ),
        Claim(
            paper="Actors that explore differently make a replay memory unnecessary.",
            ours="share of the best value of 16 workers without replay",
            figure="sixteen",
            unit="1",
            least=_SOLVED,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Updates of several actors are less correlated than those of one.",
            ours="correlation of successive updates of 16 workers over that of one, both without replay",
            figure="alike",
            unit="ratio",
            most=0.5,
        ),
        Claim(
            paper="One-step Q-learning is 3.8 times as soon at a score with 16 workers as with 4.",
            ours="virtual seconds of 4 workers until 90 % of the best value, over those of 16",
            figure="speed",
            unit="x",
            least=1.9,
            efficiency=Efficiency.SYSTEM,
        ),
    ),
)
