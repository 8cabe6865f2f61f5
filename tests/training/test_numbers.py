"""What is one number is one wherever it is given, and what is none is refused there with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from toy import network

from polyrhythm.core.training.numbers import number
from polyrhythm.errors import DivergedError, WorkloadError

from .scenes import go, loop, sgd

NUMBERS = [1, True, 1.0, np.float32(1), np.int64(1), np.ones(1), np.ones((1, 1)), torch.tensor(1), torch.ones(1, requires_grad=True)]
NUMBERS += [torch.ones(1, 1, dtype=torch.bfloat16), Decimal(1), Fraction(1)]
NONE = ["x", "0.5", None, torch.ones(2), torch.ones(0), np.ones(2), np.array("x"), [1.0], {}, 1j, torch.tensor(1j), 10**400]
PLACES = [
    lambda worker, value: worker.report(loss=value),
    lambda worker, value: worker.evaluate(lambda model: {"loss": value}),
    lambda worker, value: worker.mean(value),
]
places = pytest.mark.parametrize("give", PLACES, ids=["report", "evaluate", "mean"])


def giving(give: Callable[[Any, object], object], value: object) -> Callable[[Any], None]:
    """Gives it before training."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        give(worker, value)
        loop(worker, model, optimizer)

    return train


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_a_number_is_one_whatever_it_comes_as(value: object) -> None:
    assert number("got", value) == 1.0
    assert type(number("got", value)) is float


@pytest.mark.parametrize("value", NONE, ids=lambda value: repr(value)[:20])
def test_what_is_not_one_number_is_refused(value: object) -> None:
    with pytest.raises(WorkloadError, match=r"^got .*, which is not a single number: give a float or a tensor of one element\.$"):
        number("got", value)


@places
@pytest.mark.parametrize("value", [np.float32(1), np.ones(1), Fraction(1)], ids=repr)
def test_it_is_taken_wherever_a_number_is(give: Any, value: object) -> None:
    go(giving(give, value))


@places
@pytest.mark.parametrize("value", ["x", None, np.ones(2)], ids=repr)
def test_it_is_refused_wherever_a_number_is_wanted(give: Any, value: object) -> None:
    with pytest.raises(WorkloadError, match=r"worker\..*which is not a single number: give a "):
        go(giving(give, value))


def test_what_is_not_finite_is_reported_with_one_remedy() -> None:
    messages = []
    for give in PLACES[:2]:
        with pytest.raises(DivergedError, match=r"loss .* nan .*: the training diverged; lower the learning rate") as caught:
            go(giving(give, torch.tensor(float("nan"))))
        messages.append(str(caught.value).partition(": ")[2])
    assert messages[0] == messages[1]
