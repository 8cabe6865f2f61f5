"""What loggers write is read back by the tools' own readers, while the run goes on and after it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from leftovers import soon

import polyrhythm as pr

STEPS = 12


def train(worker: pr.Worker) -> None:
    x = torch.arange(48.0)[:, None] / 48
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    worker.evaluate(lambda model: {"loss": model(x).square().mean()})
    for (part,) in worker.batches((x,), batch_size=2):
        optimizer.zero_grad()
        model(part).square().mean().backward()
        optimizer.step()
        worker.report(step=worker.clock)


def run(logger: Any, during: Any = None) -> pr.Run:
    def watched(worker: pr.Worker) -> None:
        train(worker)
        if during is not None and worker.rank == 0:
            during()

    return pr.run(watched, workers=2, strategy="ssp", seed=1, on=pr.Simulator(network="lan"), loggers=[logger])


def test_tensor_board_reads_every_metric(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read() -> Any:
        events = EventAccumulator(str(tmp_path))
        events.Reload()
        return events

    early: list[int] = []
    done = run(pr.loggers.TensorBoard(tmp_path), lambda: early.append(len(read().Scalars("step"))))
    assert early == [STEPS]
    events = read()
    assert [(each.step, each.value) for each in events.Scalars("step")] == [(k, k) for k in range(1, STEPS + 1)]
    assert events.Scalars("evaluation/loss")[-1].value == pytest.approx(done.final["loss"])
    assert {"run/seconds", "run/bytes_sent", "run/samples", "worker/1/step"} <= set(events.Tags()["scalars"])
    [text] = events.Tensors("run/text_summary")
    assert b"ssp" in text.tensor_proto.string_val[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_mlflow_reads_every_metric(tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    address = f"sqlite:///{tmp_path}/mlflow.db"
    early: list[int] = []

    def read() -> tuple[Any, Any]:
        client = MlflowClient(tracking_uri=address)
        experiment = client.get_experiment_by_name("trials")
        [found] = client.search_runs([experiment.experiment_id])
        return client, found

    def during() -> None:
        client, found = read()
        early.append(len(client.get_metric_history(found.info.run_id, "step")))

    done = run(pr.loggers.MLflow(address, "trials"), during)
    assert early == [STEPS]
    client, found = read()
    assert found.info.status == "FINISHED"
    assert (found.data.params["system"], found.data.params["workers"], found.data.params["seed"]) == ("ssp", "2", "1")
    history = client.get_metric_history(found.info.run_id, "step")
    assert sorted((each.step, each.value) for each in history) == [(k, k) for k in range(1, STEPS + 1)]
    assert found.data.metrics["evaluation/loss"] == pytest.approx(done.final["loss"])
    assert {"run/seconds", "run/bytes_sent", "worker/1/step"} <= set(found.data.metrics)


def records(content: bytes) -> Iterator[bytes]:
    """The records of a .wandb file, which is a log of LevelDB after 7 bytes; the library's own reader is compiled into its programs."""
    place, begun, block = 7, b"", 32768
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        begun += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield begun
            begun = b""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_weights_and_biases_reads_every_metric_offline(tmp_path: Path) -> None:
    from wandb.proto import wandb_internal_pb2

    def rows() -> list[dict[str, float]]:
        found = []
        for data in records(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                found.append({item.key or "/".join(item.nested_key): float(item.value_json) for item in record.history.item})
        return found

    done = run(pr.loggers.WandB("trials", tmp_path))
    [path] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert soon(lambda: any("run/bytes_sent" in row for row in rows()))  # a process of the library's own writes the file
    seen = rows()
    assert [row["step"] for row in seen if "worker/1/step" in row] == list(range(1, STEPS + 1))
    assert [row["evaluation/loss"] for row in seen if "evaluation/loss" in row][-1] == pytest.approx(done.final["loss"])
    assert any("run/bytes_sent" in row for row in seen)
