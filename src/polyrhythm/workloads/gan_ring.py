"""A generator and a discriminator on eight Gaussians in a ring, where the number of modes that are covered is seen at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.sample_noise import normal
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

MODES, RADIUS, DEVIATION = 8, 2.0, 0.1
TEST_SAMPLES = 2000
_LATENT = 4
_NEAR = 4 * DEVIATION
"""A sample is at a mode if it is as near to it."""
_COVERED = 1 / (4 * MODES)
"""A mode is covered if at least this share of all samples is at it: a quarter of what each has."""


class Generator(nn.Module):
    """From noise (n, latent) to points (n, 2). Its parameters begin with `generator`, so that a strategy can select them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.generator = _perceptron(_LATENT, width, 2)

    def forward(self, noise: Tensor) -> Tensor:
        """The points."""
        points: Tensor = RADIUS * self.generator(noise)
        return points


class Discriminator(nn.Module):
    """From points (n, 2) to the logits of their being real (n,). Its parameters begin with `discriminator`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.discriminator = _perceptron(2, width, 1)

    def forward(self, points: Tensor) -> Tensor:
        """The logits."""
        logits: Tensor = self.discriminator(points / RADIUS)[:, 0]
        return logits


def _perceptron(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))


@dataclass(frozen=True, slots=True)
class GanRing:
    """Adversarial training (Goodfellow et al., 2014) with the loss that does not saturate; `batch_size` is each worker's own.

    The discriminator's learning rate is twice the generator's.

    Both networks are attached, each with its Adam, so that each has exchanges of its own. Noise belongs to samples: what a batch gets does
    not depend on which worker has it.
    """

    samples: int = 4096
    epochs: int = 20
    batch_size: int = 64
    width: int = 128
    learning_rate: float = 1e-3

    name: ClassVar[str] = "gan-ring"
    description: ClassVar[str] = "a generator and a discriminator on eight Gaussians in a ring: how many modes are covered"
    metric: ClassVar[Metric] = Metric("modes", higher_is_better=True)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            samples=self.samples,
            epochs=self.epochs,
            batch_size=self.batch_size,
            width=self.width,
            learning_rate=self.learning_rate,
        )

    @property
    def sizes(self) -> Sizes:
        """Points are drawn from the run's seed; 2,000 generated ones are looked at."""
        return Sizes(self.samples, TEST_SAMPLES, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        ring = ring_of(self.samples, worker.seed)
        networks = Generator(self.width).to(worker.device), Discriminator(self.width).to(worker.device)
        rates = self.learning_rate, 2 * self.learning_rate
        adams = [torch.optim.Adam(each.parameters(), lr=rate, betas=(0.5, 0.999)) for each, rate in zip(networks, rates, strict=True)]
        for network, adam, name in zip(networks, adams, ("generator", "discriminator"), strict=True):
            worker.attach(network, adam, name=name)
        test = normal(worker.seed, TEST_SAMPLES, _LATENT, self.name, "test")
        worker.evaluate(partial(measured, noise=test))

        dataset = TensorDataset(ring, torch.arange(self.samples))
        for epoch in worker.epochs(self.epochs):
            drawn = [normal(worker.seed, self.samples, _LATENT, self.name, epoch, name) for name in ("first", "second")]
            for real, which in worker.batches(dataset, batch_size=self.batch_size):
                noises = [each[which].to(worker.device) for each in drawn]
                adversarial_step(networks, adams, real.to(worker.device), noises)


def adversarial_step(networks: tuple[nn.Module, nn.Module], adams: Sequence[Any], real: Tensor, noises: Sequence[Tensor]) -> None:
    """A step of the discriminator, on real points and those of the first noise, then one of the generator, by the second."""
    generator, discriminator = networks
    adams[1].zero_grad()
    with torch.no_grad():
        fake = generator(noises[0])
    (_entropy(discriminator(real), 1.0) + _entropy(discriminator(fake), 0.0)).backward()  # type: ignore[no-untyped-call]
    adams[1].step()
    adams[0].zero_grad()
    _entropy(discriminator(generator(noises[1])), 1.0).backward()  # type: ignore[no-untyped-call]
    adams[0].step()


def _entropy(logits: Tensor, target: float) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def ring_of(samples: int, seed: int) -> Tensor:
    """Points (samples, 2) near the eight modes, which are dealt evenly."""
    return modes()[torch.arange(samples) % MODES] + DEVIATION * normal(seed, samples, 2, GanRing.name, "ring")


def modes() -> Tensor:
    """The centres (8, 2)."""
    angles = 2 * math.pi * torch.arange(MODES) / MODES
    return RADIUS * torch.stack([angles.cos(), angles.sin()], dim=1)


def measured(generator: nn.Module, discriminator: nn.Module, noise: Tensor) -> dict[str, float]:
    """The number of modes that generated points cover, and the share of points that are at one."""
    with torch.no_grad():
        points = generator(noise.to(next(generator.parameters()).device)).cpu()
    distances, nearest = torch.cdist(points, modes()).min(dim=1)
    at_mode = distances <= _NEAR
    shares = nearest[at_mode].bincount(minlength=MODES) / len(points)
    return {"modes": float((shares >= _COVERED).sum()), "precision": at_mode.float().mean().item()}
