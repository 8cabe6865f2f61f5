"""An Accelerator whose processes are a run's workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from accelerate.state import AcceleratorState
from framework_examples import CLOSE, changed, original_loss, trained
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.accelerate import Accelerator

NAME = "hf_accelerate"


@pytest.fixture(autouse=True)
def _afresh() -> None:
    AcceleratorState._reset_state(reset_partial_state=True)


def go(train: Any, strategy: str = "allreduce") -> Any:
    return run(train, workers=2, strategy=strategy, on=Simulator(network=Instant()), seed=3)


def prepared(worker: Any, **options: Any) -> tuple[Accelerator, nn.Module, Any]:
    accelerator = Accelerator(worker, cpu=True, **options)
    model = nn.Linear(2, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return accelerator, model, optimizer


def test_at_most_five_lines_of_the_example_change() -> None:
    assert 0 < changed(NAME) <= 5


def test_two_workers_have_the_loss_of_the_single_process() -> None:
    outcome = trained(NAME)
    assert outcome.final["loss"] == pytest.approx(original_loss(NAME), abs=CLOSE)
    assert (outcome.summary.samples, outcome.summary.steps) == (1408, 22)


@pytest.mark.parametrize("system", ["diloco", "ssp"])
def test_other_systems_train_it(system: str) -> None:
    assert trained(NAME, system).final["loss"] < 1.2


@pytest.mark.long
def test_real_processes_give_the_same_weights() -> None:
    assert trained(NAME, on=Processes()).summary.weights_sha256 == trained(NAME).summary.weights_sha256


def test_values_of_all_workers_come_together() -> None:
    def train(worker: Any) -> None:
        accelerator, _, _ = prepared(worker)
        rank = worker.rank
        assert (accelerator.num_processes, accelerator.process_index, accelerator.is_main_process) == (2, rank, rank == 0)
        assert accelerator.gather({"a": torch.tensor(rank), "b": torch.full((1, 2), rank)})["a"].tolist() == [0, 1]
        assert accelerator.reduce(torch.tensor([rank + 1, 2])).tolist() == [3, 4]
        assert accelerator.reduce(torch.tensor(1.0 + rank), "mean").item() == 1.5
        assert accelerator.pad_across_processes(torch.ones(rank + 1, 2), dim=0).shape == (2, 2)
        assert accelerator.pad_across_processes(torch.ones(rank + 1), pad_first=True).tolist() == [[0.0, 1.0], [1.0, 1.0]][rank]
        assert accelerator.gather_for_metrics(["a", rank]) == ["a", 0, "a", 1]
        with accelerator.split_between_processes(["x", "y", "z"]) as part:
            assert part == [["x", "y"], ["z"]][rank]
        if rank == 1:
            accelerator.set_trigger()
        assert accelerator.check_trigger()

    go(train)


def test_worker_0_alone_prints_and_saves_and_goes_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    order: list[int] = []

    def train(worker: Any) -> None:
        accelerator, model, _ = prepared(worker, project_dir=tmp_path / str(worker.rank))
        accelerator.print("once")
        accelerator.on_main_process(lambda: print("main"))()
        accelerator.on_last_process(lambda: print("last"))()
        accelerator.on_process(lambda: print("second"), process_index=1)()
        with accelerator.main_process_first():
            order.append(worker.rank)
        accelerator.save_state(str(tmp_path / str(worker.rank) / "state"))
        accelerator.save_model(model, str(tmp_path / str(worker.rank) / "model"))
        accelerator.save({"a": 1}, tmp_path / f"{worker.rank}.pt")
        accelerator.end_training()

    go(train)
    assert sorted(capsys.readouterr().out.split()) == ["last", "main", "once", "second"]
    assert order == [0, 1]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0", "0.pt"]


def test_shuffled_data_are_shared_out_in_one_order_and_counted_as_they_are_used() -> None:
    seen: dict[int, list[float]] = {0: [], 1: []}

    def train(worker: Any) -> None:
        accelerator, model, optimizer = prepared(worker, split_batches=True)
        loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(22.0).view(11, 2)), batch_size=4, shuffle=True))
        for (x,) in loader:
            seen[worker.rank] += x[:, 0].tolist()
            accelerator.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()

    assert go(train).summary.samples == 10
    assert len({*seen[0], *seen[1]}) == 10
    assert len(seen[0]) == len(seen[1]) == 5


def test_what_is_prepared_for_evaluation_comes_complete_and_in_order() -> None:
    def train(worker: Any) -> None:
        accelerator, _, _ = prepared(worker)
        loader = accelerator.prepare(DataLoader(torch.arange(11), batch_size=2))
        assert torch.cat([accelerator.gather_for_metrics(x) for x in loader]).tolist() == list(range(11))

    go(train)


def test_a_gradient_is_clipped_after_it_was_merged() -> None:
    def weights(by_accelerate: bool) -> torch.Tensor:
        def train(worker: Any) -> None:
            torch.manual_seed(0)
            accelerator, model, optimizer = prepared(worker)
            worker.count(1)
            accelerator.backward(F.mse_loss(model(torch.tensor([[1.0, worker.rank]])), torch.tensor([[5.0]])))
            if by_accelerate:
                accelerator.clip_grad_norm_(model.parameters(), 0.1)
            else:
                worker.attached[0].clip(0.1)
            optimizer.step()

        outcome = go(train)
        return outcome.weights["weight"]

    assert torch.equal(weights(True), weights(False))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda worker: prepared(worker)[0].clip_grad_value_([], 1.0), "would clip each worker's own gradient.*use clip_grad_norm_"),
        (
            lambda worker: Accelerator(worker, cpu=True).prepare(torch.optim.SGD(nn.Linear(1, 1).parameters())),
            "prepare the model and its optimizer together",
        ),
    ],
)
def test_what_would_go_wrong_is_refused(call: Any, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        go(call)


def test_an_accelerator_with_processes_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = accelerate.Accelerator(cpu=True)
    monkeypatch.setitem(made.state.__dict__, "distributed_type", accelerate.DistributedType.MULTI_CPU)
    with pytest.raises(CompositionError, match=r"set up for MULTI_CPU.*make the Accelerator before anything else"):
        go(lambda worker: Accelerator.of(worker, made))
