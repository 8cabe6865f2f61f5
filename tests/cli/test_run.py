"""`polyrhythm run` in both runtimes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KEYS = ["system", "workers", "on", "network", "seed", "steps", "samples", "seconds", "virtual_seconds", "bytes_sent", "messages_sent"]
KEYS += ["final", "weights_sha256", "error", "lost"]

FOREVER = """
import sys, torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker):
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    if worker.rank == 0:
        print("begun", file=sys.stderr, flush=True)
    while True:
        for a, b in worker.batches((x, x), batch_size=4):
            torch.nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
"""


def test_a_person_gets_a_table_and_a_sentence(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("run", tiny, "--system", "ssp", "--on", "simulator", "--workers", 3)
    assert (told.code, told.err) == (0, "")
    assert "In virtual time" in told.out
    assert "ssp ended with loss" in told.out
    assert "the user prints 2" in told.out


def test_json_is_one_object_with_the_promised_keys(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("run", tiny, "--system", "ssp", "--on", "simulator", "--network", "slow", "--workers", 3, "--seed", 5, "--json")
    assert told.code == 0
    summary = json.loads(told.out)
    assert list(summary) == KEYS
    assert (summary["system"], summary["workers"], summary["on"], summary["network"]) == ("ssp", 3, "simulator", "slow")
    assert summary["seed"] == 5
    assert summary["seconds"] is None
    assert summary["virtual_seconds"] > 0
    assert "the user prints" in told.err


def test_real_processes_print_one_pure_object_and_end_with_the_weights_of_the_simulator(program: Any, polyrhythm: Any, tiny: Path) -> None:
    real, virtual = program("run", tiny, "--json"), polyrhythm("run", tiny, "--on", "simulator", "--json")
    assert real.code == 0, real.err
    assert real.out.count("\n") == 1
    assert real.err.count("the user prints") == 2
    told = json.loads(real.out)
    assert told["on"] == "processes"
    assert told["virtual_seconds"] is None
    assert told["weights_sha256"] == json.loads(virtual.out)["weights_sha256"]


def test_settings_and_options_are_taken(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm(
        "run", tiny, "--on", "simulator", "--system", "sparknet", "--option", "tau=3", "--set", "epochs=4", "--set", "learning_rate=0.2"
    )
    assert "the user prints 4" in told.out
    assert "sparknet" in told.out


def test_a_network_file_is_taken(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "attic.json"
    file.write_text('{"name": "attic", "sites": [{"name": "here", "egress": "1 Mbit/s", "latency": "9 ms"}]}')
    told = polyrhythm("run", tiny, "--on", "simulator", "--network", file, "--json")
    assert json.loads(told.out)["network"] == "attic"


def test_out_keeps_the_run(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept" / "here"
    told = polyrhythm("run", tiny, "--on", "simulator", "--out", out)
    assert (told.code, f"the record of the run is in {out}" in told.err) == (0, True)
    assert {path.name for path in out.iterdir()} == {"run.json", "events.jsonl", "weights.safetensors"}


def heed_interruptions() -> None:
    """As in a terminal: what a shell starts in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("on", ["simulator", "processes"])
def test_an_interruption_is_said_and_nothing_else(job: Any, on: str) -> None:
    command = [sys.executable, "-m", "polyrhythm", "run", str(job(FOREVER)), "--on", on, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed_interruptions) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "begun\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "", "polyrhythm: interrupted\n")
