"""Asynchronous advantage actor-critic: workers that act, each in an environment of its own, and learn one policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.actors.cart_pole import CartPole
from polyrhythm.workloads.actors.chain import RewardChain
from polyrhythm.workloads.actors.environment import Environment, Play
from polyrhythm.workloads.actors.losses import Costs, actor_critic_loss
from polyrhythm.workloads.actors.networks import ActorCritic
from polyrhythm.workloads.actors.returns import lambda_returns
from polyrhythm.workloads.actors.shared_rmsprop import SharedRmsprop, WithStatistics
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

_DECAY, _LEAST = 0.99, 0.1
"""α and ε of RMSProp, as in the paper's section 8."""


class Rollout(NamedTuple):
    """T frames of one actor: observations before and after them (T, n), `actions`, `rewards`, `discounts` and λ (T,)."""

    seen: Tensor
    following: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    lambdas: Tensor


class PolicyActor:
    """Draws actions from the policy of `model`; `draw` is its own, so that no two explore alike."""

    def __init__(self, model: nn.Module, play: Play, draw: torch.Generator) -> None:
        self.model = model
        self.play = play
        self.draw = draw

    def rollout(self, frames: int, discount: float) -> Rollout:
        """Act for so many frames, through ends of episodes: there no return goes on."""
        rows = []
        for _ in range(frames):
            seen = self.play.observation
            with torch.no_grad():
                logits, _ = self.model(seen)
            action = int(torch.multinomial(logits.softmax(dim=0), 1, generator=self.draw))
            transition = self.play.act(action)
            follows = 0.0 if transition.terminal else discount
            rows.append((seen, transition.following, action, transition.reward, follows, 0.0 if transition.over else 1.0))
        seen_all, following, actions, *numbers = zip(*rows, strict=True)
        rewards, discounts, lambdas = (torch.tensor(each) for each in numbers)
        return Rollout(torch.stack(seen_all), torch.stack(following), torch.tensor(actions), rewards, discounts, lambdas)

    def state_dict(self) -> dict[str, Any]:
        return {"play": self.play.state_dict(), "draw": self.draw.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.play.load_state_dict(state["play"])
        self.draw.set_state(state["draw"])


def loss_of(model: nn.Module, rollout: Rollout, costs: Costs) -> Tensor:
    """The actor-critic loss of a rollout, with returns of as many frames as follow in it."""
    logits, values = model(rollout.seen)
    with torch.no_grad():
        _, after = model(rollout.following)
    returns = lambda_returns(rollout.rewards, rollout.discounts, after, rollout.lambdas)
    return actor_critic_loss(logits, values, rollout.actions, returns, costs)


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
    """A3C on Gymnasium's CartPole, with the extra `actors`; the score is the mean return, at most 500."""

    frames: int = 200_000
    batch_size: int = 20
    learning_rate: float = 0.005
    entropy: float = 0.005
    width: int = 64

    name: ClassVar[str] = "cart-pole-a3c"
    description: ClassVar[str] = "actor-critic workers on Gymnasium's CartPole; minutes on one core"
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
    names = ("frames", "batch_size", "learning_rate", "width")
    require_positive(settings.name, **{name: getattr(settings, name) for name in names})


def train(worker: WorkloadWorker, settings: A3cSettings, environment: Environment) -> None:
    """An ordinary loop: act, learn from it, step."""
    inner = ActorCritic(environment, settings.width).to(worker.device)
    model = WithStatistics(inner)
    optimizer: torch.optim.Optimizer = SharedRmsprop(model, settings.learning_rate, _DECAY, _LEAST)
    worker.attach(model, optimizer)
    worker.evaluate(lambda model: {"score": environment.score(model.model.policy, worker.seed)})
    name = settings.name
    play = environment.play(rng.stream(worker.seed, name, "play", worker.rank))
    actor = PolicyActor(inner, play, rng.generator(worker.seed, name, "actions", worker.rank))
    worker.keep(actor=actor)
    costs = Costs(entropy=settings.entropy)

    for _ in worker.range(max(1, settings.frames // (settings.batch_size * worker.workers))):
        rollout = actor.rollout(settings.batch_size, environment.discount)
        optimizer.zero_grad()
        loss = loss_of(inner, rollout, costs)
        loss.backward()  # type: ignore[no-untyped-call]
        worker.count(settings.batch_size)
        optimizer.step()
