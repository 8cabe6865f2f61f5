"""Workloads whose data come from an environment that each worker acts in: A3C, DQN, and what both are made of."""

from polyrhythm.workloads.actors.cart_pole import CartPole
from polyrhythm.workloads.actors.chain import RewardChain
from polyrhythm.workloads.actors.decision_process import DecisionProcess
from polyrhythm.workloads.actors.environment import Environment, Transition, Play
from polyrhythm.workloads.actors.experience import NoReplay, ExperienceReplay
from polyrhythm.workloads.actors.losses import actor_critic_loss, double_q_targets, q_targets
from polyrhythm.workloads.actors.returns import lambda_returns, n_step_returns
from polyrhythm.workloads.actors.shared_rmsprop import SharedRmsprop, WithStatistics

__all__ = [
    "CartPole",
    "DecisionProcess",
    "Environment",
    "ExperienceReplay",
    "NoReplay",
    "Play",
    "RewardChain",
    "SharedRmsprop",
    "Transition",
    "WithStatistics",
    "actor_critic_loss",
    "double_q_targets",
    "lambda_returns",
    "n_step_returns",
    "q_targets",
]
