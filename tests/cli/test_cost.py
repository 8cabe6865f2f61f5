"""`polyrhythm cost`: the formulas of a model on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Command

JOB = """
import torch


def train(worker, hidden=16):
    model = torch.nn.Sequential(torch.nn.Linear(4, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in worker.batches((torch.ones(32, 4), torch.zeros(32, 2)), batch_size=8):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
"""


def test_the_cost_of_a_job_is_shown_as_text_and_as_json(polyrhythm: Command, tmp_path: Path) -> None:
    (file := tmp_path / "net.py").write_text(JOB)
    done = polyrhythm("cost", file, "--workers", "2", "--network", "slow", "--set", "hidden=32", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["batch_size"] == 8
    assert found["gradient_bytes"] == 4 * (5 * 32 + 33 * 2)
    assert found["forward"]["multiply_adds"] == 8 * (4 * 32 + 32 * 2)
    assert {"ring", "tree", "butterfly", "direct", "star"} < {each["name"] for each in found["collectives"]}
    assert any(each["name"] == "dp 2, allreduce" for each in found["partitions"])
    shown = polyrhythm("cost", file, "--workers", "2", "--network", "slow")
    assert "parallelism" in shown.out
    assert "ring:" in shown.out


def test_a_job_without_a_model_is_refused(polyrhythm: Command, tmp_path: Path) -> None:
    (file := tmp_path / "none.py").write_text("def train(worker):\n    pass\n")
    done = polyrhythm("cost", file)
    assert done.code == 2
    assert "never called worker.attach" in done.err
