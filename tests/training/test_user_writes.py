"""What users do to an attached model and optimizer is right under every system, in both runtimes, or refused with a remedy; never lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.processes import Processes
from polyrhythm.errors import CompositionError, WorkloadError

from .scenes import EVERY_SYSTEM, go
from .user_writes import CASES, RUNTIMES, attached, is_bounded, is_loaded, load, loop, verdict

SHORT = ("mxnet",)
"""The weights are at servers; the other ways have tests of their own below."""
IN_PROCESSES = ("mxnet",)
WRITES = (
    "loaded_before_the_first_step",
    "clipped_through_data",
    "bounded_by_constrain",
    "a_hook_after_steps",
    "momenta_loaded_after_attach",
)


def systems(short: tuple[str, ...]) -> list[Any]:
    return [name if name in short else pytest.param(name, marks=pytest.mark.long) for name in EVERY_SYSTEM]


@pytest.mark.parametrize("system", systems(SHORT))
def test_in_virtual_time_everything_is_right_or_refused_with_a_remedy(system: str) -> None:
    found = {name: verdict(name, system, RUNTIMES["simulator"]()) for name in CASES}
    assert [f"{name} {text}" for name, text in found.items() if text.startswith("wrong")] == []


@pytest.mark.parametrize("system", systems(IN_PROCESSES))
def test_in_processes_it_is_the_same(system: str) -> None:
    found = {name: verdict(name, system, Processes()) for name in WRITES}
    assert [f"{name} {text}" for name, text in found.items() if text.startswith("wrong")] == []


@pytest.mark.parametrize("case", ["a_hook_before_steps", "a_hook_after_steps"])
@pytest.mark.parametrize("system", ["byteps", "climate", "signsgd", "fedavg"])
def test_step_hooks_are_called_once_a_step_wherever_and_whenever_it_is_taken(system: str, case: str) -> None:
    assert verdict(case, system, RUNTIMES["simulator"]()) == "right"


@pytest.mark.parametrize("case", ["loaded_in_mid_training", "clipped_through_data", "masked_in_a_step_hook", "loaded_after_the_last_step"])
@pytest.mark.parametrize("system", ["ssp", "easgd", "diloco", "strom"])
def test_what_an_exchange_would_lose_is_refused(system: str, case: str) -> None:
    assert verdict(case, system, RUNTIMES["simulator"]()).startswith("refused: The weights were written by hand at worker/")


KEPT = ("allreduce", "powersgd", "local-sgd", "gossipgrad", "hogwild")


@pytest.mark.parametrize("system", KEPT)
@pytest.mark.parametrize(
    "case", ["loaded_before_the_first_step", "loaded_in_mid_training", "clipped_through_data", "loaded_after_the_last_step"]
)
def test_where_workers_hold_the_weights_a_write_at_all_of_them_is_kept(case: str, system: str) -> None:
    assert verdict(case, system, RUNTIMES["simulator"]()) == "right"


@pytest.mark.parametrize("system", ["diloco", "byteps", "climate", "strom", "adpsgd", "sgp", "noloco", "streaming-diloco"])
def test_where_workers_hold_the_weights_a_run_begins_with_what_they_wrote(system: str) -> None:
    assert verdict("loaded_before_the_first_step", system, RUNTIMES["simulator"]()) == "right"


@pytest.mark.parametrize("case", ["bounded_by_constrain", "masked_by_constrain"])
@pytest.mark.parametrize("system", ["diloco", "byteps", "climate", "strom", "ako", "adpsgd", "sgp", "streaming-diloco", "hogwild"])
def test_a_constraint_holds_in_the_end_where_workers_hold_the_weights(system: str, case: str) -> None:
    assert verdict(case, system, RUNTIMES["simulator"]()) == "right"


def test_a_constraint_holds_after_every_step() -> None:
    def train(worker: Any) -> None:
        model, optimizer = attached(worker)
        worker.constrain(clip)

        def look(*_: Any) -> None:
            assert is_bounded(dict(model.state_dict())), "hooks see what satisfies it"

        optimizer.register_step_post_hook(look)
        loop(worker, model, optimizer)

    go(train, "byteps")
    go(train, "local-sgd")


def clip(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.clamp_(-0.05, 0.05)


def test_clipping_by_constrain_is_clipping_by_hand_where_both_are_right() -> None:
    def by_hand(worker: Any) -> None:
        @torch.no_grad()
        def clipped(held: nn.Module, step: int) -> None:
            clip(held)

        model, optimizer = attached(worker)
        clipped(model, 0)
        loop(worker, model, optimizer, clipped)

    def constrained(worker: Any) -> None:
        model, optimizer = attached(worker)
        worker.constrain(clip)
        loop(worker, model, optimizer)

    one, other = go(by_hand, "allreduce"), go(constrained, "allreduce")
    assert one.summary.weights_sha256 == other.summary.weights_sha256


def test_with_several_models_a_constraint_states_which() -> None:
    def training(choose: Callable[[nn.Module], nn.Module | None]) -> Callable[[Any], None]:
        def train(worker: Any) -> None:
            critic, first = attached(worker)
            other, second = attached(worker)
            worker.constrain(clip, model=choose(critic))
            loop(worker, critic, first)
            loop(worker, other, second)
            assert is_bounded(dict(critic.state_dict()))
            assert not is_bounded(dict(other.state_dict()))

        return train

    go(training(lambda critic: critic))
    with pytest.raises(WorkloadError, match="model=critic"):
        go(training(lambda critic: None))
    with pytest.raises(WorkloadError, match="not attached"):
        go(training(lambda critic: network()))


def test_a_constraint_where_servers_hold_the_weights_is_refused_at_the_call() -> None:
    def train(worker: Any) -> None:
        attached(worker)
        worker.constrain(clip)

    with pytest.raises(CompositionError, match=r"worker\.constrain: under mxnet .*allreduce"):
        go(train, "mxnet")


def test_a_write_that_is_lost_is_refused_at_the_next_step_with_the_step() -> None:
    steps = []

    def train(worker: Any) -> None:
        model, optimizer = attached(worker)
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            steps.append(worker.clock)
            if worker.clock == 3:
                load(model)

    with pytest.raises(CompositionError, match="written by hand at worker/0, after step 3"):
        go(train, "mxnet")
    assert max(steps) == 3


def test_hooks_are_not_copied_with_a_model_or_an_optimizer() -> None:
    def train(worker: Any) -> None:
        model, optimizer = attached(worker, momentum=0.9)
        copy.deepcopy(model)
        kept = optimizer.state_dict()
        loop(worker, model, optimizer)
        optimizer.load_state_dict(kept)  # options alone

    go(train, "mxnet")


def test_an_optimizer_with_a_state_before_its_first_step_is_attached_to_servers() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.Adagrad(model.parameters()))
        loop(worker, model, optimizer)

    go(train, "mxnet")


@pytest.mark.parametrize("system", ["allreduce", "diloco", "gossipgrad"])
def test_a_resumed_run_does_not_begin_with_what_is_loaded_after_attach_once_more(system: str, tmp_path: Any) -> None:
    def train(worker: Any) -> None:
        model, optimizer = attached(worker, 1e-9)
        load(model)
        with torch.no_grad():
            next(iter(model.parameters())).sub_(50 if worker.returning else 0)
        loop(worker, model, optimizer)

    go(train, system, checkpoints=Checkpoints(tmp_path, every=4))
    assert is_loaded(dict(go(train, system, checkpoints=Checkpoints(tmp_path, every=4, resume=True)).weights))


def test_what_is_written_after_resuming_a_loop_that_counts_steps_is_refused(tmp_path: Any) -> None:
    def train(worker: Any) -> None:
        model, optimizer = attached(worker)
        load(model)
        x, y = data()
        while worker.clock < 8:
            worker.count(len(x))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    go(train, checkpoints=Checkpoints(tmp_path, every=3))
    with pytest.raises(CompositionError, match="resumed from a checkpoint"):
        go(train, checkpoints=Checkpoints(tmp_path, every=3, resume=True))


def test_weights_that_satisfy_a_constraint_do_so_after_resuming(tmp_path: Any) -> None:
    def train(worker: Any) -> None:
        model, optimizer = attached(worker)
        worker.constrain(clip)
        loop(worker, model, optimizer)

    whole = go(train, "diloco", checkpoints=Checkpoints(tmp_path, every=5))
    again = go(train, "diloco", checkpoints=Checkpoints(tmp_path, every=5, resume=True))
    assert whole.summary.weights_sha256 == again.summary.weights_sha256
    assert is_bounded(dict(again.weights))


@pytest.mark.parametrize(
    "make", [lambda p: torch.optim.Adam(p, 0.01), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.optim.Adagrad]
)
@pytest.mark.parametrize("system", ["downpour", "softsync", "elephas-asynchronous", "signsgd", "fifteen-pf"])
def test_what_an_optimizer_remembers_of_its_own_steps_here_is_no_state_that_somebody_wrote(system: str, make: Any) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, make(model.parameters()))
        loop(worker, model, optimizer)

    go(train, system)
