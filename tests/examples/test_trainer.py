"""Hugging Face's Trainer as one of many workers: its optimizer attached, its data shared out, and all its options kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ports import reserved_port

from polyrhythm.errors import UnshardedWarning

from .scenes import EXAMPLES, HF_TRAINER, REAL, SYSTEMS, VIRTUAL, check, trained

SCRIPT = EXAMPLES / "hf_trainer.py"
GUIDE = EXAMPLES.parent / "docs" / "guide.md"
SHARING = "    trainer._get_train_sampler = worker.sampler\n"


@pytest.fixture(autouse=True)
def _one_epoch_without_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # a Trainer makes its output_dir, whether it saves or not
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.argv", ["hf_trainer.py", "--epochs", "1"])


def variant(folder: Path, given: str, instead: str) -> Path:
    """The script with one passage replaced."""
    text = SCRIPT.read_text(encoding="utf-8")
    assert text.count(given) == 1
    path = folder / "variant.py"
    path.write_text(text.replace(given, instead), encoding="utf-8")
    return path


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_trainer_trains_in_virtual_time_each_worker_on_its_own_share(system: str, tmp_path: Path) -> None:
    check(HF_TRAINER, trained(SCRIPT, system, VIRTUAL, tmp_path), tmp_path)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_trainer_trains_on_real_processes_each_worker_on_its_own_share(system: str, tmp_path: Path) -> None:
    check(HF_TRAINER, trained(SCRIPT, system, REAL, tmp_path), tmp_path)


def test_both_runtimes_keep_to_its_options_and_give_the_same_weights(tmp_path: Path) -> None:
    options = 'max_steps=4, gradient_accumulation_steps=2, bf16=True, eval_strategy="steps", eval_steps=2, seed=worker.seed + worker.rank'
    path = variant(tmp_path, "warmup_steps=5", options)
    virtual, real = (trained(path, "allreduce", on, tmp_path) for on in (VIRTUAL, REAL))
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256
    assert virtual.summary.steps == 4


def test_a_trainer_whose_data_are_not_shared_out_is_warned_of(tmp_path: Path) -> None:
    with pytest.warns(UnshardedWarning, match="all 2 workers may be training on the same data"):
        trained(variant(tmp_path, SHARING, "    trainer.args.max_steps = 4\n"), "allreduce", VIRTUAL, tmp_path)


def test_the_guide_quotes_the_script() -> None:
    [quoted] = re.findall(r"^```diff\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    script = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert all(line[1:] in script for line in quoted.splitlines() if line[0] in "+ ")


JOINED = """
import os
import polyrhythm as pr
from hf_trainer import train

worker = pr.join("allreduce", seed=1)
for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
    del os.environ[name]
train(worker)
print("the test:", worker.samples, worker.metrics["bits"])
"""


@pytest.mark.long
def test_a_trainer_joins_where_accelerate_is_not_recorded_checkpoints_the_others(tmp_path: Path) -> None:
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *sys.path])}
    with reserved_port() as port:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", JOINED, "--epochs", "1"],
                env={**os.environ, **place, "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [rank.communicate(timeout=120)[0].splitlines()[-1] for rank in ranks]
    assert said[0] == said[1]
    virtual = trained(SCRIPT, "allreduce", VIRTUAL, tmp_path)
    assert said[0] == f"the test: {virtual.summary.samples // 2} {virtual.final['bits']}"
