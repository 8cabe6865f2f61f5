"""The digits, and the two models on them."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from polyrhythm.errors import PolyrhythmError
from polyrhythm.workloads import DigitsCnn
from polyrhythm.workloads.digits import accuracy, digits, small_cnn, wide_mlp


def test_the_data_are_1437_to_train_on_and_360_to_test_on() -> None:
    training, test = digits()
    assert [tuple(tensor.shape) for tensor in training.tensors] == [(1437, 1, 8, 8), (1437,)]
    assert [tuple(tensor.shape) for tensor in test.tensors] == [(360, 1, 8, 8), (360,)]
    assert training.tensors[0].dtype == torch.float32
    assert training.tensors[1].dtype == torch.int64


def test_every_class_has_its_share_of_the_test() -> None:
    _, test = digits()
    counts = torch.bincount(test.tensors[1], minlength=10)
    assert counts.min() >= 34
    assert counts.max() <= 38


def test_no_test_image_is_trained_on() -> None:
    training, test = digits()
    assert not (training.tensors[0].flatten(1)[:, None] == test.tensors[0].flatten(1)[None]).all(dim=2).any()


def test_the_split_does_not_move_with_the_global_seed() -> None:
    before = digits()[1].tensors[1].clone()
    digits.cache_clear()
    torch.manual_seed(99)
    assert torch.equal(digits()[1].tensors[1], before)


def test_the_models_have_the_sizes_their_descriptions_state() -> None:
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (small_cnn(), wide_mlp())]
    assert sizes == [21_546, 1_126_410]


def test_the_models_score_ten_classes() -> None:
    images = torch.zeros(3, 1, 8, 8)
    assert small_cnn()(images).shape == (3, 10)
    assert wide_mlp()(images).shape == (3, 10)


def test_accuracy_is_the_share_that_is_right() -> None:
    _, test = digits()
    always_three = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    with torch.no_grad():
        always_three[1].weight.zero_()
        always_three[1].bias.copy_(torch.eye(10)[3])
    assert accuracy(always_three, test, "cpu") == pytest.approx((test.tensors[1] == 3).float().mean().item())


@pytest.mark.parametrize("workers", [1, 4])
def test_the_cnn_learns_the_digits_with_one_worker_and_with_four(workers: int, lone_worker: type) -> None:
    worker = lone_worker(workers=workers)
    DigitsCnn()(worker)
    assert worker.final["accuracy"] >= (0.97 if workers == 1 else 0.95)


def test_without_scikit_learn_the_remedy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    digits.cache_clear()
    with pytest.raises(PolyrhythmError, match="run pip install scikit-learn"):
        digits()
