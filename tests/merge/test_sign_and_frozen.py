"""SignDescent and FrozenAdam by hand, and against torch's own Adam."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.merge import FrozenAdam, SignDescent

LAYOUT = Layout(("w",), ((4,),))


def direction(step: int) -> torch.Tensor:
    return torch.randn(4, generator=torch.Generator().manual_seed(step))


def test_a_sign_moves_by_the_rate_and_a_zero_not_at_all() -> None:
    given = torch.tensor([3.0, -0.1, 0.0, -0.0])
    assert SignDescent().step(given, {}, 0.5)[0].tolist() == [0.5, -0.5, 0.0, 0.0]
    assert SignDescent(0.2).step(given, {}, 0.5)[0].tolist() == pytest.approx([0.2, -0.2, 0.0, 0.0])


def test_in_the_warmup_it_is_adam() -> None:
    weights = torch.nn.Parameter(torch.zeros(4))
    adam, rule = torch.optim.Adam([weights], lr=0.1), FrozenAdam(20)
    state, mine = rule.initial(LAYOUT), torch.zeros(4)
    for step in range(20):
        weights.grad = direction(step)
        adam.step()
        moved, state = rule.step(direction(step), state, 0.1)
        mine = mine - moved
    torch.testing.assert_close(mine, weights.detach())


def test_afterwards_the_direction_is_the_momentum_and_the_variance_stays() -> None:
    rule = FrozenAdam(2)
    state = rule.initial(LAYOUT)
    for step in range(2):
        _, state = rule.step(direction(step), state, 0.1)
    frozen = state["variance"]
    moved, state = rule.step(direction(7), state, 0.1)
    assert torch.equal(state["variance"], frozen)
    assert torch.equal(state["momentum"], direction(7))
    expected = 0.1 * direction(7) / (1 - 0.9**3) / ((frozen / (1 - 0.999**2)).sqrt() + 1e-8)
    torch.testing.assert_close(moved, expected)


def test_what_had_no_gradient_in_the_warmup_stays_where_it_is() -> None:
    rule = FrozenAdam(1)
    _, state = rule.step(torch.tensor([1.0, 0.0, 2.0, 0.0]), rule.initial(LAYOUT), 0.1)
    moved, _ = rule.step(torch.ones(4), state, 0.1)
    assert moved[[1, 3]].tolist() == [0.0, 0.0]
    assert (moved[[0, 2]] > 0).all()


@pytest.mark.parametrize("make", [lambda: SignDescent(0.0), lambda: FrozenAdam(0), lambda: FrozenAdam(5, beta1=1.0)])
def test_settings_that_cannot_work_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="cannot step"):
        make()
