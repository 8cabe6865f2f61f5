"""Metrics as a CSV file, and what loggers are given."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from ports import reserved_port
from typer.testing import CliRunner

import polyrhythm as pr
from polyrhythm.core.protocols.metrics_logger import RunDescription
from polyrhythm.tools.cli.app import app

SIMULATOR = pr.Simulator(network="lan")


def train(worker: pr.Worker) -> None:
    x = torch.arange(96.0)[:, None] / 96
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    worker.evaluate(lambda model: {"loss": model(x).square().mean()})
    for epoch in range(2):
        for (part,) in worker.batches((x,), batch_size=4):
            optimizer.zero_grad()
            loss = model(part).square().mean()
            loss.backward()
            optimizer.step()
        worker.report(loss=loss, epoch=epoch)


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_metrics_keep_their_names_when_another_worker_is_first(tmp_path: Path) -> None:
    def each_epoch(worker: pr.Worker) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for epoch in worker.epochs(2):
            for (part,) in worker.batches((torch.ones(96, 1),), batch_size=4):
                model(part).sum().backward()
                optimizer.step()
            worker.report(epoch=epoch)

    on = pr.Simulator(network="lan", faults=(pr.hardware.Crash("worker/0", step=12),))
    pr.run(each_epoch, workers=pr.Crew(1, 3, replace=False), on=on, seed=1, loggers=[pr.loggers.CSV(tmp_path / "metrics.csv")])
    found = lines(tmp_path / "metrics.csv")
    assert [line["value"] for line in found if line["metric"] == "epoch"] == ["0.0", "1.0"]
    assert len([line for line in found if line["metric"] == "worker/2/epoch"]) == 2
    assert [line for line in found if line["metric"] == "run/samples" and int(line["step"]) > 12]


@pytest.mark.parametrize("on", [SIMULATOR, pr.Processes()], ids=["virtual", "real"])
def test_every_metric_of_a_run_is_a_line(on: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.csv"
    done = pr.run(train, workers=2, on=on, seed=1, loggers=[pr.loggers.CSV(path)])
    found = lines(path)
    names = {line["metric"] for line in found}
    assert names == {
        "loss", "epoch", "worker/1/loss", "worker/1/epoch", "evaluation/loss", "run/seconds", "run/bytes_sent", "run/samples",
    }  # fmt: skip
    assert [int(line["step"]) for line in found if line["metric"] == "epoch"] == [12, 24]
    assert [int(line["step"]) for line in found if line["metric"] == "run/samples"] == [10, 20, 24]
    last = [line for line in found if line["metric"] == "evaluation/loss"][-1]
    assert float(last["value"]) == done.final["loss"]
    wide = pd.read_csv(path).pivot_table(index="step", columns="metric", values="value")
    assert wide.loc[24, "epoch"] == 1


def test_lines_are_there_while_the_run_goes_on(tmp_path: Path) -> None:
    path, seen = tmp_path / "metrics.csv", []

    def watching(worker: pr.Worker) -> None:
        model = torch.nn.Linear(1, 1)
        _, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for (part,) in worker.batches((torch.ones(8, 1),), batch_size=2):
            model(part).sum().backward()
            optimizer.step()
            worker.report(step=worker.clock)
            seen.append(len(lines(path)))

    pr.run(watching, workers=1, on=SIMULATOR, loggers=[pr.loggers.CSV(path)])
    assert seen == [1, 2, 3, 4]


@dataclass(frozen=True)
class Recording:
    """Keeps what it is given, or raises where it is configured to."""

    at: str = ""
    given: list[Any] = field(default_factory=list)

    def open(self, run: RunDescription) -> Recording:
        self._do("open", run)
        return self

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        self._do("write", dict(metrics))

    def close(self, state: str) -> None:
        self._do("close", state)

    def _do(self, what: str, value: Any) -> None:
        if what == self.at:
            raise OSError("the disk is full")
        self.given.append((what, value))


def test_a_logger_is_given_the_description_of_the_run_first_and_its_end_last() -> None:
    logger = Recording()
    pr.run(train, workers=2, strategy="ssp", on=SIMULATOR, seed=7, loggers=[logger])
    (opened, run), *_, closed = logger.given
    assert (opened, run.system, run.workers, run.runtime, run.seed) == ("open", "ssp", 2, "simulator", 7)
    assert run.settings["train"] == "train"
    assert closed == ("close", "ended")


@pytest.mark.parametrize("at", ["open", "write", "close"])
def test_a_logger_that_fails_is_left_out_with_a_warning(at: str) -> None:
    failing, other = Recording(at), Recording()
    with pytest.warns(
        pr.errors.RecordWarning, match=r"Recording failed \(OSError: the disk is full\), and the run went on without it"
    ) as warned:
        done = pr.run(train, workers=2, on=SIMULATOR, loggers=[failing, other])
    assert len(warned) == 1
    assert done.summary.steps == 24
    assert other.given[-1] == ("close", "ended")


def test_a_run_that_fails_closes_its_loggers() -> None:
    def failing(worker: pr.Worker) -> None:
        raise KeyError("gone")

    logger = Recording()
    with pytest.raises(pr.PolyrhythmError, match="gone"):
        pr.run(failing, workers=1, on=SIMULATOR, loggers=[logger])
    assert [what for what, _ in logger.given] == ["open", "close"]
    assert logger.given[-1] == ("close", "failed")


@pytest.mark.parametrize(
    ("logger", "extra"),
    [(pr.loggers.TensorBoard("x"), "tensorboard"), (pr.loggers.WandB(), "wandb"), (pr.loggers.MLflow(), "mlflow")],
    ids=repr,
)
def test_a_logger_whose_package_is_missing_is_refused_before_the_run(logger: Any, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    other = Recording()
    with pytest.raises(pr.PolyrhythmError, match=rf"pip install 'polyrhythm\[{extra}\]'"):
        pr.run(train, workers=1, on=SIMULATOR, loggers=[other, logger])
    assert other.given[-1] == ("close", "failed")


JOINED = """
import torch
import polyrhythm as pr

worker = pr.join("allreduce", loggers=[pr.loggers.CSV("metrics.csv")])
model = torch.nn.Linear(1, 1)
model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
for (x,) in worker.batches((torch.ones(8, 1),), batch_size=2):
    model(x).sum().backward()
    optimizer.step()
    worker.report(rank=worker.rank)
"""


def test_worker_0_of_a_joined_run_has_the_loggers(tmp_path: Path) -> None:
    with reserved_port() as port:
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        started = [
            subprocess.Popen([sys.executable, "-c", JOINED], cwd=tmp_path, env={**os.environ, **place, **path, "RANK": str(rank)})
            for rank in range(2)
        ]
        assert [process.wait(timeout=120) for process in started] == [0, 0]
    found = lines(tmp_path / "metrics.csv")
    assert [line["value"] for line in found if line["metric"] == "rank"] == ["0.0"] * 2


def test_the_command_line_names_loggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(
        "import torch\n\ndef train(worker):\n    model = torch.nn.Linear(1, 1)\n"
        "    worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))\n    worker.report(loss=1.5)\n"
    )
    invoke = lambda *words: CliRunner().invoke(app, ["run", "job.py", "--on", "simulator", "--quiet", *words])  # noqa: E731
    assert invoke("--log", "csv:a.csv", "--log", "csv:b.csv").exit_code == 0
    assert {"loss", "worker/1/loss"} <= {line["metric"] for line in lines(Path("a.csv"))}
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    for wrong, message in {"cvs:a": "csv", "csv": "has no target: write csv:PATH", "csv:": "has no target"}.items():
        refused = invoke("--log", wrong)
        assert refused.exit_code == 2
        assert message in refused.stderr
