"""`polyrhythm layouts`: a plan of layouts on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Command

JOB = """
from functools import partial

import torch
from torch import nn

import polyrhythm as pr


def make():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


data = (torch.ones(8, 4), torch.zeros(8, 1))
job = pr.LayoutJob(make, nn.functional.mse_loss, partial(torch.optim.SGD, lr=0.1), data, 4)
space = pr.LayoutSpace(zero=(), schedules=())
"""


def test_layouts_of_a_file_are_planned(polyrhythm: Command, tmp_path: Path) -> None:
    (file := tmp_path / "net.py").write_text(JOB)
    done = polyrhythm("layouts", file, "--workers", "2", "--network", "slow", "--runs", "1", "--steps", "2", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert {each["name"] for each in found["layouts"]} == {"dp 2, allreduce", "dp 2, diloco every 10 steps"}
    assert found["layouts"][0]["loss"] is not None
    assert [each["what"] for each in found["refused"]] == ["Mesh(tp=2)", "Mesh(pp=2)"]
    shown = polyrhythm("layouts", file, "--workers", "2", "--runs", "0", "--memory", "1GB")
    assert "2 layouts fit, 2 were refused; 0 were trained." in shown.out


def test_files_without_a_job_are_refused(polyrhythm: Command, tmp_path: Path) -> None:
    (file := tmp_path / "none.py").write_text("job = 3")
    assert "defines no job: give it job = pr.LayoutJob(" in polyrhythm("layouts", file).err
    assert "There is no file" in polyrhythm("layouts", tmp_path / "absent.py").err
