"""A run that is killed while it writes checkpoints: the last whole one can always be read, and gone on from."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyrhythm.core.checkpoints.store import CheckpointStore
from polyrhythm.core.kernel.group import servers

SCRIPT = """
import torch
from torch import nn


def train(worker):
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    while worker.clock < 5000:
        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        worker.count(4)
        optimizer.step()
"""


def killed_after_a_while(script: Path, directory: Path, system: str, draw: random.Random) -> int:
    """Resume the run in `directory`, kill it at some moment after its first new checkpoint; the newest step then."""
    store = CheckpointStore(directory)
    before = len(store.whole()) and int(store.whole()[-1].name[5:])
    command = [sys.executable, "-m", "polyrhythm", "run", str(script), "--system", system, "--checkpoint", str(directory)]
    launcher = subprocess.Popen([*command, "--every", "1", "--resume", "--quiet"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not store.whole() or int(store.whole()[-1].name[5:]) <= before:
            assert launcher.poll() is None, launcher.communicate()[1].decode()
            assert time.monotonic() < deadline, "no checkpoint was written"
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))
    finally:
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.communicate()
    return before


def whole_after_kills(tmp_path: Path, system: str, kills: int) -> None:
    script, directory, draw = tmp_path / "train.py", tmp_path / "checkpoints", random.Random(system)
    script.write_text(SCRIPT)
    for _ in range(kills):
        before = killed_after_a_while(script, directory, system, draw)
        found = CheckpointStore(directory).newest()
        assert found is not None
        manifest = found.manifest
        assert manifest.step > before, "the run went on from the last one"
        for actor in [*manifest.members, *servers(manifest.servers)]:
            found.read(actor)


@pytest.mark.parametrize("system", ["ssp", pytest.param("allreduce", marks=pytest.mark.long)])
def test_a_killed_run_goes_on_from_its_last_whole_checkpoint(system: str, tmp_path: Path) -> None:
    whole_after_kills(tmp_path, system, 2)


@pytest.mark.long
@pytest.mark.parametrize("system", ["allreduce", "ssp"])
def test_fifteen_kills_at_random_moments_leave_a_whole_checkpoint(system: str, tmp_path: Path) -> None:
    whole_after_kills(tmp_path, system, 15)
