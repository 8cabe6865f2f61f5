"""CartPole: whether an actor-critic on shared weights, and Q-learning from a replay memory, solve it and stay there."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.workloads import CartPoleA3c, CartPoleDqn
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial

_SOLVED = 475.0
_NOTHING = 1e-12
"""A learning rate that moves no policy."""
_GAME = (
    "Gymnasium's CartPole-v1 in place of Atari games: a reward of 1 a frame until a pole falls, at most 500 frames. A score is the mean "
    "return of the likeliest actions in 20 episodes that are not trained on, by the last weights and not the best ones on the way."
)
_SEEDS = (
    "Solved is 475, as Gymnasium has it. Our specification asks for 4 seeds of 5; here a claim is reproduced if every seed reaches it. "
    "Settings were chosen with the seeds 100 to 102 alone, in {} trial runs, before any run with the seeds that are measured; other "
    "numbers of workers and other systems were not tuned. The baseline is the same network with a rate of 1e-12, which learns nothing."
)


def _measure_a3c(trial: ArmTrial) -> Figures:
    return _scores(trial, CartPoleA3c(frames=trial.size(CartPoleA3c().frames, 2_000)), 4)


def _measure_dqn(trial: ArmTrial) -> Figures:
    return _scores(trial, CartPoleDqn(frames=trial.size(CartPoleDqn().frames, 1_000)), 1)


def _scores(trial: ArmTrial, job: CartPoleA3c | CartPoleDqn, workers: int) -> Figures:
    """The score of what was learned, and of the policy that training begins with."""
    untaught = replace(job, frames=4 * job.batch_size * workers, learning_rate=_NOTHING)
    return {"score": _score(trial, "learned", job, workers), "untaught": _score(trial, "rate 0", untaught, workers)}


def _score(trial: ArmTrial, arm: str, job: CartPoleA3c | CartPoleDqn, workers: int) -> float:
    on = Simulator(devices=Profile("a step of 1 ms", (1e-3,)), seed=trial.seed)
    return trial.train(arm, job, find("single" if workers == 1 else "hogwild"), workers, on).final


def _claims(paper: str) -> tuple[Claim, ...]:
    return (
        Claim(paper=paper, ours="mean return of the last weights, of 500", figure="score", unit="1", least=_SOLVED, beside="untaught"),
        Claim(
            paper="A policy that has learned nothing does not balance a pole.",
            ours="mean return of the weights that training begins with, of 500",
            figure="untaught",
            unit="1",
            most=100.0,
            kind=ClaimKind.VALUE,
        ),
    )


A3C = Reproduction(
    name="cart-pole-a3c",
    systems=("hogwild",),
    paper="Mnih et al.: Asynchronous Methods for Deep Reinforcement Learning (ICML 2016)",
    setting=f"{_GAME} Actor-critic workers, 4 on shared weights with one RMSProp for all, 300,000 frames together.",
    notes=_SEEDS.format(16),
    baseline="rate 0",
    scaling=Scaling.WEAK,
    measure=_measure_a3c,
    claims=_claims("Actor-critic workers on shared weights learn a policy without a replay memory."),
)

DQN = Reproduction(
    name="cart-pole-dqn",
    systems=(),
    paper="Mnih et al.: Human-level control through deep reinforcement learning (Nature 2015)",
    setting=f"{_GAME} Double Q-learning with a target network and a replay memory, one worker, 120,000 frames.",
    notes=_SEEDS.format(7),
    baseline="rate 0",
    scaling=Scaling.WEAK,
    measure=_measure_dqn,
    claims=_claims("A network learns action values from a replay memory and a target network."),
)
