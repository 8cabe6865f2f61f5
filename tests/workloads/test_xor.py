"""The exclusive or, and that nine parameters learn it."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import Xor
from polyrhythm.workloads.xor import network, samples


def test_a_sample_is_two_noisy_bits_and_their_exclusive_or() -> None:
    x, y = samples(1000, 0.1, seed=3, name="train").tensors
    bits = x.round()
    assert torch.equal(y.view(-1), (bits[:, 0] != bits[:, 1]).float())
    assert 0.08 < (x - bits).std() < 0.12
    again, other = samples(1000, 0.1, seed=3, name="train").tensors[0], samples(1000, 0.1, seed=4, name="train").tensors[0]
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    assert set(samples(100, 0.0, 0, "test").tensors[0].view(-1).tolist()) == {0.0, 1.0}


def test_it_is_two_two_and_one() -> None:
    assert sum(parameter.numel() for parameter in network().parameters()) == 9


def test_nine_parameters_learn_it(lone_worker: type) -> None:
    worker = lone_worker(seed=0)
    Xor(samples=20_000, batch_size=10, learning_rate=5.0)(worker)
    assert worker.final["accuracy"] > 0.99


def test_noise_that_is_none_is_refused() -> None:
    with pytest.raises(WorkloadError, match="0 to 1"):
        Xor(noise=-0.1)
