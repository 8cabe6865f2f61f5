"""Flax's TrainState and JAX's pytrees as one of many workers'."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from framework_examples import CLOSE, changed, loss_in, original_loss, trained

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.integrations.flax import TrainState
from polyrhythm.integrations.jax import TreeExchange

NAME = "flax_model"
pytestmark = pytest.mark.filterwarnings("default")  # JAX warns of fork


def test_at_most_five_lines_of_the_example_change() -> None:
    assert 0 < changed(NAME) <= 5


def test_two_workers_have_the_loss_of_the_single_process(capfd: pytest.CaptureFixture[str]) -> None:
    outcome = trained(NAME, on=Processes())
    assert loss_in(capfd.readouterr().out) == pytest.approx(original_loss(NAME), abs=CLOSE)
    assert outcome.summary.samples == 1408
    assert outcome.summary.weights_sha256 == trained(NAME).summary.weights_sha256


@pytest.mark.parametrize("system", ["diloco", "ssp"])
def test_other_systems_train_it(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    trained(NAME, system)
    assert loss_in(capsys.readouterr().out) < 1.2


def go(train: Any, strategy: str = "allreduce") -> Any:
    return run(train, workers=2, strategy=strategy, on=Simulator(network=Instant()), seed=1)


def test_a_tree_of_any_shape_moves_by_the_mean_of_all_gradients() -> None:
    def train(worker: Any) -> None:
        params = {"a": [jnp.full((2,), float(worker.rank)), jnp.zeros(())], "b.c": {"d": jnp.ones((1, 3))}}
        exchange = TreeExchange(worker, params, optax.sgd(1.0))
        worker.count(1)
        moved = exchange.step(jax.tree_util.tree_map(lambda leaf: jnp.full(leaf.shape, 1.0 + worker.rank), params))
        assert jax.tree_util.tree_structure(moved) == jax.tree_util.tree_structure(params)
        assert moved["a"][0].tolist() == [-1.5, -1.5]  # worker 0 began with zeros
        assert moved["a"][1].item() == -1.5
        assert moved["b.c"]["d"].tolist() == [[-0.5, -0.5, -0.5]]

    go(train)


def test_a_list_of_many_leaves_keeps_its_order() -> None:
    """Names of paths are not in the order of the leaves: [10] is before [2]."""

    def train(worker: Any) -> None:
        exchange = TreeExchange(worker, [jnp.full((2,), float(place)) for place in range(12)], optax.sgd(1.0))
        assert [leaf[0].item() for leaf in exchange.params] == list(range(12))
        worker.count(1)
        moved = exchange.step([jnp.full((2,), float(place)) for place in range(12)])
        assert all((leaf == 0).all() for leaf in moved)

    go(train)


@pytest.mark.parametrize(("system", "message"), [("softsync", "cannot run at a server"), ("downpour", "steps by its own rule")])
def test_systems_that_would_step_in_the_place_of_optax_are_refused(system: str, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        go(lambda worker: TreeExchange(worker, {"w": jnp.ones(3)}, optax.adam(0.1)) and None, system)


def test_half_precision_is_refused() -> None:
    with pytest.raises(CompositionError, match="a leaf of bfloat16, which cannot be exchanged"):
        go(lambda worker: TreeExchange(worker, {"w": jnp.ones(3, jnp.bfloat16)}, optax.adam(0.1)) and None)


def test_a_step_inside_a_compiled_function_is_refused() -> None:
    def train(worker: Any) -> None:
        state = TrainState.create(apply_fn=None, params={"w": jnp.ones(3)}, tx=optax.adam(0.1), worker=worker)
        jax.jit(lambda grads: state.apply_gradients(grads=grads).params)({"w": jnp.ones(3)})

    with pytest.raises(WorkloadError, match=r"called inside jax.jit.*call the step outside"):
        go(train)
