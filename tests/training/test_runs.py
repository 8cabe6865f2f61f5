"""What a run leaves behind: the same numbers for the same seed, a directory, and nothing changed in the caller's process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from kinds import sampled
from safetensors.torch import load_file
from torch.nn import functional as F
from toy import data, network

import polyrhythm
from polyrhythm.core.kernel.events import Reported, Stepped
from polyrhythm.core.records.load import load
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import attempt, run
from polyrhythm.errors import CompositionError, DeadlockError, DivergedError, WorkerFailed, WorkloadError
from polyrhythm.merge import Mean

from .scenes import EVERY_SYSTEM, LOCKSTEP_SERVER, flat, go, loop, sgd, trains


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(system: str) -> None:
    first, again, other = (go(trains(sgd, epochs=2), system, 3, seed).summary for seed in (1, 1, 2))
    assert first.weights_sha256 == again.weights_sha256 != other.weights_sha256
    assert msgspec.json.encode(first) == msgspec.json.encode(again)


def draws(worker: Any) -> list[float]:
    """A number from each of the three generators, and whether dropout keeps each of 16 places."""
    kept = F.dropout(torch.ones(16), 0.5).tolist()
    return [float(torch.rand(())), float(np.random.rand()), random.random(), *kept]


def drawn(seed: int) -> dict[int, list[float]]:
    numbers: dict[int, list[float]] = {}

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        numbers[worker.rank] = draws(worker)
        loop(worker, model, optimizer)
        numbers[worker.rank] += draws(worker)

    go(train, "allreduce", 3, seed)
    return numbers


def test_workers_draw_different_numbers_which_repeat_with_the_seed() -> None:
    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again
    assert len({str(each) for numbers in (first, other) for each in numbers.values()}) == 6


def test_each_worker_has_a_replica_of_the_whole_model_and_one_of_them_is_the_first() -> None:
    found = {}

    def look(worker: Any) -> None:
        found[worker.rank] = worker.replica, worker.replicas, worker.is_first
        trains(sgd)(worker)

    go(look, "allreduce", 3)
    assert found == {0: (0, 3, True), 1: (1, 3, False), 2: (2, 3, False)}


def test_the_callers_generators_and_grad_mode_are_as_before() -> None:
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            torch.manual_seed(3), np.random.seed(3), random.seed(3)
            before = torch.get_rng_state(), np.random.get_state(), random.getstate()
            go(trains(sgd), "allreduce", 3)
            with pytest.raises(WorkerFailed):
                go(fails_at(2), "allreduce", 3)
            assert torch.equal(torch.get_rng_state(), before[0])
            assert str(np.random.get_state()) == str(before[1])
            assert random.getstate() == before[2]
            assert torch.is_grad_enabled() is mode


def fails_at(step: int) -> Any:
    """The last worker raises an error of the user's own after `step` steps."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            worker.report(step=worker.clock)
            if worker.clock == step and worker.rank == worker.workers - 1:
                raise KeyError("no such column")

    return train


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "gossipgrad", "strom"])
def test_an_error_of_the_users_comes_with_its_worker_and_its_own_traceback(strategy: str) -> None:
    with pytest.raises(WorkerFailed, match=r"worker/2 failed: KeyError: 'no such column'") as caught:
        go(fails_at(2), strategy, 3)
    assert caught.value.actor == "worker/2"
    assert 'raise KeyError("no such column")' in caught.value.trace
    assert str(Path(polyrhythm.__file__).parent) not in caught.value.trace


def poisoned(where: str) -> Any:
    """Worker 1's loss, or its report, is not a number from step 3 on."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            bad = worker.rank == 1 and worker.clock == 2
            loss = F.cross_entropy(model(x), y) * (float("nan") if bad and where == "loss" else 1.0)
            loss.backward()
            optimizer.step()
            worker.report(loss=float("inf") if worker.rank == 1 and worker.clock == 3 and where == "report" else loss)

    return train


@pytest.mark.parametrize("system", ["allreduce", "direct", "tree", "downpour", "ssp", "softsync", "onebit", "strom", "gossipgrad"])
def test_a_loss_that_is_not_a_number_names_worker_step_and_remedy(system: str) -> None:
    with pytest.raises(DivergedError, match=r"of worker/1 are not finite at step 3: .*lower the learning rate, clip gradients"):
        go(poisoned("loss"), system, 3)


def test_a_report_that_is_not_finite_names_worker_step_and_remedy() -> None:
    with pytest.raises(DivergedError, match=r"worker/1 reports loss = inf after step 3: .*lower the learning rate"):
        go(poisoned("report"), "allreduce", 3)


def test_reports_take_tensors_of_one_element_and_refuse_the_rest() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        worker.report(a=torch.tensor(1.5, requires_grad=True), b=torch.tensor([2]), c=np.float32(0.5), d=True)
        for wrong in (torch.zeros(2), "0.5", None):
            with pytest.raises(WorkloadError, match=r"got loss = .*, which is not a single number: give a float or a tensor"):
                worker.report(loss=wrong)

    assert go(train).final == {"a": 1.5, "b": 2.0, "c": 0.5, "d": 1.0}


DIFFERENT = ("strom", "dl4j-sharing", "actors-decentralised", "ako", "hong-chandra", "dlion", "keuper-asgd")
"""What peers have sent is added in an order that may differ, so that sums differ by rounding; the last four never make replicas equal.
All others end alike, and these do not."""


def test_finishing_twice_is_harmless_and_the_model_then_holds_the_result() -> None:
    held: dict[int, torch.Tensor] = {}

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        loop(worker, model, optimizer)
        worker.finish()
        worker.finish()
        held[worker.rank] = torch.cat([tensor.reshape(-1) for tensor in model.state_dict().values()])

    for system in EVERY_SYSTEM:
        outcome = go(train, system, 3)
        alike = [torch.equal(held[rank], flat(outcome)) for rank in range(outcome.summary.workers)]
        assert alike[0], system
        assert all(alike) is (system not in DIFFERENT), system


def test_a_step_after_the_end_is_refused() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        worker.finish()
        optimizer.step()

    with pytest.raises(WorkloadError, match=r"optimizer.step\(\) .* was called after worker.finish\(\)"):
        go(train, LOCKSTEP_SERVER)


def leaves_early(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    for x, y in worker.batches(data(), batch_size=4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if worker.rank == 1 and worker.clock == 3:
            break


@pytest.mark.parametrize("strategy", ["allreduce", "direct", "tree", "onebit", "gossipgrad", LOCKSTEP_SERVER], ids=str)
def test_a_worker_that_leaves_a_synchronous_loop_early_is_named_with_its_steps_and_the_remedy(strategy: Any) -> None:
    with pytest.raises(
        DeadlockError, match=r"^worker/1 finished after 3 steps, but worker/0 and worker/2 wait to take another: .*worker\.any\("
    ) as caught:
        go(leaves_early, strategy, 3)
    assert "waits for" not in str(caught.value)


@pytest.mark.parametrize("system", ["downpour", "ssp", "softsync", "easgd", "strom", "single"])
def test_a_worker_may_leave_an_asynchronous_loop_early(system: str) -> None:
    go(leaves_early, system, 3)


@pytest.mark.parametrize(
    ("workers", "train", "message"), [(0, leaves_early, "workers=0 trains nothing"), (2, "file.py", "cannot be called")]
)
def test_what_cannot_run_is_refused_before_anything_runs(workers: int, train: Any, message: str) -> None:
    with pytest.raises((CompositionError, WorkloadError), match=message):
        go(train, workers=workers)


def test_a_run_directory_holds_settings_events_and_weights(tmp_path: Path) -> None:
    outcome = go(trains(sgd, epochs=2), "ssp", 2, directory=tmp_path / "deep" / "run")
    path = tmp_path / "deep" / "run"
    assert sorted(file.name for file in path.iterdir()) == ["events.jsonl", "run.json", "weights.safetensors"]
    document = msgspec.json.decode((path / "run.json").read_bytes())
    assert document["summary"]["system"] == "ssp"
    assert document["summary"]["weights_sha256"] == outcome.summary.weights_sha256
    assert "Bounded(slack=3)" in document["settings"]["strategy"]
    assert {"python", "torch", "polyrhythm", "numpy"} <= document["versions"].keys()
    again = load(path)
    assert again.events == outcome.outcome.events
    assert [event.clock for event in again.events if isinstance(event, Stepped) and event.actor == "worker/1"] == list(range(1, 13))
    model = network()
    model.load_state_dict(load_file(path / "weights.safetensors"))
    assert torch.equal(model[0].weight, outcome.weights["0.weight"])  # type: ignore[index]


def test_saving_a_run_writes_the_same_directory(tmp_path: Path) -> None:
    outcome = go(trains(sgd), directory=tmp_path / "a")
    outcome.save(tmp_path / "b")
    for name in ("events.jsonl", "run.json", "weights.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_that_fails_keeps_what_happened_before_and_nothing_of_an_earlier_run(tmp_path: Path) -> None:
    go(trains(sgd), directory=tmp_path)
    with pytest.raises(WorkerFailed):
        go(fails_at(4), "allreduce", 3, directory=tmp_path)
    kept = load(tmp_path)
    assert "no such column" in (kept.summary.error or "")
    assert [event.clock for event in kept.events if isinstance(event, Reported) and event.actor == "worker/2"] == [1, 2, 3, 4]
    assert not (tmp_path / "weights.safetensors").exists()


def test_every_event_is_shown_to_who_watches() -> None:
    shown: list[Any] = []
    on = Simulator(network=Instant())
    tried = attempt(trains(sgd), workers=2, strategy=LOCKSTEP_SERVER, on=on, watch=shown.append)
    assert shown == tried.outcome.events
    assert tried.error is None


def test_an_attempt_that_fails_comes_back_with_what_is_known_of_it() -> None:
    tried = attempt(fails_at(4), workers=3, strategy=LOCKSTEP_SERVER, on=Simulator(network="lan"))
    assert isinstance(tried.error, WorkerFailed)
    summary = tried.outcome.summary
    assert "Traceback" not in (summary.error or "")
    assert (summary.steps, summary.samples > 0, (summary.virtual_seconds or 0) > 0) == (4, True, True)


def test_a_run_takes_the_seed_of_its_runtime_unless_it_is_given_one() -> None:
    on = Simulator(network=Instant(), seed=11)
    assert run(trains(sgd), on=on).summary.seed == 11
    assert run(trains(sgd), on=on, seed=12).summary.seed == 12


def test_the_weights_of_a_run_go_back_into_the_model() -> None:
    outcome = go(trains(sgd))
    model = network()
    model.load_state_dict(outcome.weights)
    assert all(torch.equal(tensor, outcome.weights[name]) for name, tensor in model.state_dict().items())


def test_a_run_has_a_name_of_its_own_or_that_of_its_system() -> None:
    assert go(trains(sgd)).summary.system == "allreduce"
    assert go(trains(sgd), LOCKSTEP_SERVER).summary.system == "custom"
    assert go(trains(sgd), Strategy(name="mine")).summary.system == "mine"


def test_names_in_place_of_things_are_refused_with_the_things() -> None:
    with pytest.raises(CompositionError, match=r"pr\.Simulator\(network=\.\.\.\)"):
        run(trains(sgd), on="simulator")  # type: ignore[arg-type]
    with pytest.raises(CompositionError, match=r"consistency='lockstep' is a name, not a piece.*BulkSynchronous\(\)"):
        Strategy(consistency="lockstep")  # type: ignore[arg-type]
    with pytest.raises(CompositionError, match=r"merge=Mean is a class, not a piece.*Mean\(\)"):
        Strategy(merge=Mean)  # type: ignore[arg-type]


def test_a_run_shows_itself_in_a_line() -> None:
    assert repr(go(trains(sgd))).startswith("<Run of allreduce on 2 workers (simulator): {'loss': ")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"strategy": None}, "neither a system's name nor a Strategy"),
        ({"strategy": Mean()}, "compose pieces"),
        ({"on": Simulator}, "is not a runtime"),
        ({"workers": "2"}, "not a whole number"),
        ({"workers": 2.0}, "not a whole number"),
        ({"workers": True}, "not a whole number"),
        ({"workers": 0}, "trains nothing"),
    ],
    ids=str,
)
def test_what_is_of_the_wrong_kind_is_refused_with_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        run(trains(sgd), **({"workers": 2, "on": Simulator(network=Instant())} | given))


def test_a_number_of_numpys_is_one_too() -> None:
    assert run(trains(sgd), workers=np.int64(2), on=Simulator(network=Instant())).summary.workers == 2
