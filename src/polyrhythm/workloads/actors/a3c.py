"""Asynchronous advantage actor-critic: workers that act, each in an environment of its own, and learn one policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.actors.annealing import anneal, require_share
from polyrhythm.workloads.actors.cart_pole import CartPole
from polyrhythm.workloads.actors.chain import RewardChain
from polyrhythm.workloads.actors.courses import courses, require_courses
from polyrhythm.workloads.actors.environment import Environment, Play
from polyrhythm.workloads.actors.losses import Costs, actor_critic_loss
from polyrhythm.workloads.actors.networks import ActorCritic, Size
from polyrhythm.workloads.actors.returns import lambda_returns
from polyrhythm.workloads.actors.shared_rmsprop import SharedRmsprop, WithStatistics
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

_DECAY = 0.99
"""α of RMSProp, as in the paper's section 8."""


class Rollout(NamedTuple):
    """T frames of K courses: observations before and after them (T, K, n), `actions`, `rewards`, `discounts` and λ (T, K)."""

    seen: Tensor
    following: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    lambdas: Tensor


class Weighing(NamedTuple):
    """What follows a frame counts by `discount`; `trace`, which is λ, is the share of its return rather than its value."""

    discount: float
    trace: float


class PolicyActor:
    """Draws actions from the policy of `model`, in several courses side by side; `draw` is its own, so that no two explore alike."""

    def __init__(self, model: nn.Module, plays: list[Play], draw: torch.Generator) -> None:
        self.model = model
        self.plays = plays
        self.draw = draw

    def rollout(self, frames: int, weighing: Weighing) -> Rollout:
        """Act for so many frames in each course, through ends of episodes: there no return goes on."""
        rows = []
        for _ in range(frames):
            seen = torch.stack([play.observation for play in self.plays])
            with torch.no_grad():
                logits, _ = self.model(seen)
            actions = torch.multinomial(logits.softmax(dim=1), 1, generator=self.draw).squeeze(1)
            transitions = [play.act(action) for play, action in zip(self.plays, actions.tolist(), strict=True)]
            rewards = torch.tensor([each.reward for each in transitions])
            discounts = torch.tensor([0.0 if each.terminal else weighing.discount for each in transitions])
            lambdas = torch.tensor([0.0 if each.over else weighing.trace for each in transitions])
            rows.append(Rollout(seen, torch.stack([each.following for each in transitions]), actions, rewards, discounts, lambdas))
        return Rollout(*(torch.stack(each) for each in zip(*rows, strict=True)))

    def state_dict(self) -> dict[str, Any]:
        return {"plays": [play.state_dict() for play in self.plays], "draw": self.draw.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for play, own in zip(self.plays, state["plays"], strict=True):
            play.load_state_dict(own)
        self.draw.set_state(state["draw"])


def loss_of(model: nn.Module, rollout: Rollout, costs: Costs) -> Tensor:
    """The actor-critic loss of a rollout, with returns of as many frames as follow in it."""
    logits, values = model(rollout.seen.flatten(0, 1))
    with torch.no_grad():
        _, after = model(rollout.following)
    returns = lambda_returns(rollout.rewards, rollout.discounts, after, rollout.lambdas)
    return actor_critic_loss(logits, values, rollout.actions.flatten(), returns.flatten(), costs)


@dataclass(frozen=True, slots=True)
class ChainA3c:
    """A3C on a chain of 8 states: `frames` of all workers, of which one takes `batch_size` a step (Mnih et al., ICML 2016, algorithm S3).

    A step's returns are of up to `batch_size` frames (t_max). RMSProp's statistics lie with the weights (`SharedRmsprop`): under `hogwild`
    all workers share one. The score is the exact value of the policy, as a share of the best one's.
    """

    frames: int = 8_000
    batch_size: int = 5
    learning_rate: float = 0.02
    entropy: float = 0.02
    width: int = 32
    layers: int = 1
    courses: int = 1
    trace: float = 1.0
    annealed: float = 0.0
    largest: float = math.inf
    epsilon: float = 0.1
    scale: float = 1.0

    name: ClassVar[str] = "chain-a3c"
    description: ClassVar[str] = "actor-critic workers on a chain of 8 states, which is solved exactly too; samples are frames"
    metric: ClassVar[Metric] = Metric("score", higher_is_better=True)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """The samples are frames; a score is of the policy, on none of them."""
        return Sizes(self.frames, 1, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        train(worker, self, RewardChain())


@dataclass(frozen=True, slots=True)
class CartPoleA3c:
    """A3C on Gymnasium's CartPole, with the extra `actors`; the score is the mean return, at most 500.

    Each worker acts in several `courses` side by side, `batch_size` frames of all of them a step; returns are λ-returns with λ = `trace`
    (Schulman et al., ICLR 2016). The learning rate falls by the share `annealed` of itself, step by step. Gradients have at most the norm
    `largest`. Values are `scale` times what their network gives, since returns come to 100.
    """

    frames: int = 300_000
    batch_size: int = 128
    learning_rate: float = 0.002
    entropy: float = 0.01
    width: int = 64
    layers: int = 2
    courses: int = 8
    trace: float = 0.95
    annealed: float = 1.0
    largest: float = 0.5
    epsilon: float = 1e-5
    scale: float = 10.0

    name: ClassVar[str] = "cart-pole-a3c"
    description: ClassVar[str] = "actor-critic workers on Gymnasium's CartPole; half a minute on one core"
    metric: ClassVar[Metric] = Metric("score", higher_is_better=True)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """The samples are frames; a score is of episodes that are not trained on."""
        return Sizes(self.frames, CartPole().episodes, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        train(worker, self, CartPole())


A3cSettings = ChainA3c | CartPoleA3c


def _check(settings: A3cSettings) -> None:
    names = ("frames", "batch_size", "learning_rate", "width", "layers", "courses", "epsilon", "scale")
    require_positive(settings.name, **{name: getattr(settings, name) for name in names})
    if not settings.largest > 0:
        raise WorkloadError(
            f"{settings.name} was given largest={settings.largest}: give the norm of the largest gradient, or math.inf for any."
        )
    require_share(settings.name, annealed=settings.annealed, trace=settings.trace)
    require_courses(settings.name, settings.batch_size, settings.courses)


def train(worker: WorkloadWorker, settings: A3cSettings, environment: Environment) -> None:
    """An ordinary loop: act, learn from it, step."""
    inner = ActorCritic(environment, Size(settings.width, settings.layers, settings.scale)).to(worker.device)
    model = WithStatistics(inner)
    optimizer: torch.optim.Optimizer = SharedRmsprop(model, settings.learning_rate, _DECAY, settings.epsilon)
    _, optimizer = worker.attach(model, optimizer)
    worker.evaluate(lambda model: {"score": environment.score(model.model.policy, worker.seed)})
    name, size = settings.name, settings.batch_size
    plays = courses(environment, worker, name, settings.courses)
    actor = PolicyActor(inner, plays, rng.generator(worker.seed, name, "actions", worker.rank))
    worker.keep(actor=actor)
    costs, weighing = Costs(0.5 / settings.scale**2, settings.entropy), Weighing(environment.discount, settings.trace)
    steps = max(1, settings.frames // (size * worker.workers))

    for step in worker.range(steps):
        lost = settings.annealed * step / steps
        rollout = actor.rollout(size // settings.courses, weighing)
        anneal(optimizer, settings.learning_rate, lost)
        optimizer.zero_grad()
        loss = loss_of(inner, rollout, costs)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(inner.parameters(), settings.largest)
        worker.count(size)
        optimizer.step()
