"""Q-learning with a target network: from a replay memory at each worker (DQN), or from what was just seen."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.actors.annealing import anneal, require_share
from polyrhythm.workloads.actors.cart_pole import CartPole
from polyrhythm.workloads.actors.chain import RewardChain
from polyrhythm.workloads.actors.courses import courses, require_courses
from polyrhythm.workloads.actors.environment import Environment, Play
from polyrhythm.workloads.actors.experience import Experience, ExperienceReplay, FrameMemory, Frames, NoReplay
from polyrhythm.workloads.actors.losses import double_q_targets
from polyrhythm.workloads.actors.networks import Scaled, Size, scores
from polyrhythm.workloads.workload import Metric, Sizes, require_positive


def exploration(rank: int, workers: int) -> float:
    """The share of random actions of a worker, 0.1 for one alone; from 0.3 to 0.02 for several, in equal ratios, so that no two act alike.

    (Mnih et al., 2016, draw one of three shares for each worker; geometric shares are those of Horgan et al., 2018.)
    """
    return 0.1 if workers == 1 else 0.3 * (0.02 / 0.3) ** (rank / (workers - 1))


class QActor:
    """Takes the best action by `model` in each of several courses side by side, and a random one by chance; keeps what it saw."""

    def __init__(self, model: nn.Module, plays: list[Play], draw: np.random.Generator, memory: FrameMemory) -> None:
        self.model = model
        self.plays = plays
        self.draw = draw
        self.memory = memory
        self.target = copy.deepcopy(model)
        self.frames = 0

    def act(self, actions: int, discount: float, chance: float) -> None:
        """Take one action in each course, a random one with this chance, and keep the frames."""
        seen = torch.stack([play.observation for play in self.plays])
        with torch.no_grad():
            chosen = self.model(seen).argmax(dim=1).tolist()
        for play, before, best in zip(self.plays, seen, chosen, strict=True):
            action = int(self.draw.integers(actions)) if self.draw.random() < chance else best
            self.memory.add(before, action, play.act(action), discount)
        self.frames += len(self.plays)

    def renew(self) -> None:
        """Take the weights of now as those of the target network."""
        with torch.no_grad():
            for own, now in zip(self.target.parameters(), self.model.parameters(), strict=True):
                own.copy_(now)

    def state_dict(self) -> dict[str, Any]:
        draw = self.draw.bit_generator.state
        target = {name: each.detach() for name, each in self.target.named_parameters()}
        plays = [play.state_dict() for play in self.plays]
        return {"plays": plays, "draw": draw, "memory": self.memory.state_dict(), "frames": self.frames, "target": target}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for play, own in zip(self.plays, state["plays"], strict=True):
            play.load_state_dict(own)
        self.memory.load_state_dict(state["memory"])
        self.draw.bit_generator.state, self.frames = state["draw"], state["frames"]
        self.target.load_state_dict(state["target"])


def loss_of(model: nn.Module, target: nn.Module, frames: Frames) -> Tensor:
    """The Huber loss of double Q-learning."""
    values = model(frames.seen).gather(1, frames.actions.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        wanted = double_q_targets(frames.rewards, frames.discounts, target(frames.following), model(frames.following))
    return F.smooth_l1_loss(values, wanted)


@dataclass(frozen=True, slots=True)
class ChainDqn:
    """DQN on a chain of 8 states, with double Q-learning: `frames` of all workers, `batch_size` of them a step (Mnih et al., Nature, 2015).

    Each worker draws its batches from a memory of its own, and renews its target network every `renewal` steps of all. Workers explore by
    different shares of random actions. The score is that of `chain-a3c`, of the policy that takes the best action.
    """

    frames: int = 8_000
    batch_size: int = 5
    learning_rate: float = 2e-3
    renewal: int = 50
    width: int = 32
    layers: int = 1
    courses: int = 1
    scale: float = 1.0
    annealed: float = 0.0
    experience: Experience = ExperienceReplay()  # noqa: RUF009 (a frozen value)

    name: ClassVar[str] = "chain-dqn"
    description: ClassVar[str] = "Q-learning from a replay memory at each worker, on a chain of 8 states; samples are frames"
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
class ChainQ:
    """Asynchronous Q-learning on a chain, from the frames of each step alone: no memory (Mnih et al., ICML 2016, algorithm 1)."""

    frames: int = 20_000
    batch_size: int = 5
    learning_rate: float = 2e-3
    renewal: int = 50
    width: int = 32
    layers: int = 1
    courses: int = 1
    scale: float = 1.0
    annealed: float = 0.0
    experience: Experience = NoReplay()  # noqa: RUF009 (a frozen value)

    name: ClassVar[str] = "chain-q"
    description: ClassVar[str] = "the same from the frames of each step alone, without a memory"
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
class CartPoleDqn:
    """DQN on Gymnasium's CartPole, with the extra `actors`; the score is the mean return, at most 500.

    A worker acts in several `courses` side by side, one action in each a step. The learning rate falls by the share `annealed` of itself,
    step by step. Values are `scale` times what the network gives, since returns come to 100.
    """

    frames: int = 120_000
    batch_size: int = 8
    learning_rate: float = 1e-3
    renewal: int = 20
    width: int = 84
    layers: int = 2
    courses: int = 8
    scale: float = 10.0
    annealed: float = 1.0
    experience: Experience = ExperienceReplay(50_000, 128)  # noqa: RUF009 (a frozen value)

    name: ClassVar[str] = "cart-pole-dqn"
    description: ClassVar[str] = "Q-learning from a replay memory on Gymnasium's CartPole; a minute on one core"
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


DqnSettings = ChainDqn | ChainQ | CartPoleDqn


def _check(settings: DqnSettings) -> None:
    names = ("frames", "batch_size", "learning_rate", "renewal", "width", "layers", "courses", "scale")
    require_positive(settings.name, **{name: getattr(settings, name) for name in names})
    require_share(settings.name, annealed=settings.annealed)
    require_courses(settings.name, settings.batch_size, settings.courses)
    if not callable(getattr(settings.experience, "memory", None)):
        raise WorkloadError(
            f"{settings.name} was given experience={settings.experience!r}: give ExperienceReplay(room, batch) or NoReplay()."
        )


def train(worker: WorkloadWorker, settings: DqnSettings, environment: Environment) -> None:
    """An ordinary loop: act, learn from what is kept, step."""
    shape = Size(settings.width, settings.layers, settings.scale)
    model: nn.Module = Scaled(scores(environment, shape, environment.actions), shape.scale).to(worker.device)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    model, optimizer = worker.attach(model, optimizer)
    worker.evaluate(lambda model: {"score": environment.score(Greedy(model), worker.seed)})
    name, size = settings.name, settings.batch_size
    plays = courses(environment, worker, name, settings.courses)
    memory = settings.experience.memory(environment.observed, size)
    actor = QActor(model, plays, rng.stream(worker.seed, name, "actions", worker.rank), memory)
    worker.keep(actor=actor)
    steps = max(1, settings.frames // (size * worker.workers))
    least = exploration(worker.rank, worker.workers)

    for step in worker.range(steps):
        chance = max(least, 1.0 - step / (_EXPLORING * steps))
        for _ in range(size // settings.courses):
            actor.act(environment.actions, environment.discount, chance)
        anneal(optimizer, settings.learning_rate, settings.annealed * step / steps)
        optimizer.zero_grad()
        loss = loss_of(model, actor.target, memory.batch(actor.draw))
        loss.backward()  # type: ignore[no-untyped-call]
        worker.count(size)
        optimizer.step()
        if (step + 1) % max(1, settings.renewal // worker.workers) == 0:
            actor.renew()


_EXPLORING = 0.2
"""The share of the steps over which the chance of a random action falls to a worker's own."""


class Greedy(nn.Module):
    """The policy that takes the action of the largest value."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, seen: Tensor) -> Tensor:
        """Scores whose softmax is 1 for that action."""
        values = self.model(seen)
        return F.one_hot(values.argmax(dim=1), values.shape[1]).float() * _CERTAIN


_CERTAIN = 1e3
"""A score so far above the others that its softmax is 1."""
