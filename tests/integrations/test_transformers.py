"""Hugging Face's Trainer as one of many workers: its optimizer attached, its data shared out, and all its options kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from framework_examples import CLOSE, EXAMPLES, changed, original_loss, trained
from ports import reserved_port

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.transformers import Trainer, TrainingArguments

NAME = "hf_trainer"
PAGE = EXAMPLES.parents[1] / "docs" / "integrations.md"


@pytest.fixture(autouse=True)
def _without_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # a Trainer makes its output_dir, whether it saves or not
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_at_most_five_lines_of_the_example_change() -> None:
    assert 0 < changed(NAME) <= 5


def test_two_workers_have_the_loss_of_the_single_process() -> None:
    outcome = trained(NAME)
    assert outcome.final["loss"] == pytest.approx(original_loss(NAME), abs=CLOSE)
    assert (outcome.summary.samples, outcome.summary.steps) == (640, 20)


def test_real_processes_train_it_with_local_steps_to_the_same_weights() -> None:
    real, virtual = trained(NAME, "diloco", Processes()), trained(NAME, "diloco")
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256
    assert real.final["bits"] < 5.5


def test_a_system_that_does_not_wait_trains_it() -> None:
    assert trained(NAME, "ssp").final["bits"] < 5.5


class Net(torch.nn.Module):
    """A line, in the form of a model of transformers'."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.line(torch.nn.functional.dropout(x, 0.1, self.training)).squeeze(1)
        return {"loss": (scores - labels).square().mean(), "logits": scores}


def samples(count: int) -> list[dict[str, Any]]:
    drawn = torch.randn(count, 3, generator=torch.Generator().manual_seed(1))
    return [{"x": x, "labels": x.sum()} for x in drawn]


SHORT = {"max_steps": 6, "per_device_train_batch_size": 2, "learning_rate": 0.05, "report_to": "none", "use_cpu": True}
SHORT |= {"disable_tqdm": True, "dataloader_pin_memory": False, "output_dir": "out", "save_strategy": "no"}


def short(resumed: Any = None, seen: Any = None, **options: Any) -> Any:
    def train(worker: Any) -> None:
        torch.manual_seed(0)
        arguments = TrainingArguments(**(SHORT | options))
        trainer = Trainer(Net(), arguments, train_dataset=samples(33), eval_dataset=samples(7), worker=worker)
        trainer.train(resume_from_checkpoint=resumed)
        worker.report(loss=trainer.evaluate()["eval_loss"])
        if seen is not None:
            seen(worker, trainer)

    return run(train, workers=2, on=Simulator(network=Instant()), seed=1)


def test_worker_0_alone_saves_and_a_resumed_training_ends_as_the_whole_one(tmp_path: Path) -> None:
    whole = short(save_strategy="steps", save_steps=3, logging_steps=2)
    kept = sorted(each.name for each in (tmp_path / "out" / "checkpoint-3").iterdir())
    assert [each for each in kept if each.startswith("rng_state")] == ["rng_state_0.pth", "rng_state_1.pth"]
    assert {"optimizer.pt", "scheduler.pt", "trainer_state.json"} < set(kept)
    again = short(resumed="out/checkpoint-3", save_strategy="steps", save_steps=3)
    assert again.final["loss"] == pytest.approx(whole.final["loss"], abs=1e-6)


def test_its_options_are_kept(tmp_path: Path) -> None:
    options = {"gradient_accumulation_steps": 2, "bf16": True, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "best"}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "group_by_length": False}
    losses: dict[int, list[float]] = {}

    def seen(worker: Any, trainer: Any) -> None:
        losses[worker.rank] = [each["eval_loss"] for each in trainer.state.log_history if "eval_loss" in each]
        assert (trainer.args.world_size, trainer.args.process_index) == (2, worker.rank)
        predicted = trainer.predict(samples(7)).label_ids
        assert predicted.tolist() == pytest.approx([each["labels"].item() for each in samples(7)])

    best.pop("group_by_length")
    outcome = short(seen=seen, **options, **best)
    assert losses[0] == losses[1]
    assert len(losses[0]) == 4
    assert outcome.summary.samples == 6 * 2 * 2 * 2


def test_arguments_that_see_the_launcher_are_refused() -> None:
    def train(worker: Any) -> None:
        Trainer(Net(), transformers.TrainingArguments(**SHORT), train_dataset=samples(4), worker=worker)

    with pytest.raises(CompositionError, match=r"TrainingArguments of another module: take TrainingArguments from polyrhythm.integrations"):
        run(train, workers=2, on=Simulator())


JOINED = """
import polyrhythm as pr
from hf_trainer import train

worker = pr.join("allreduce", seed=1)
train(worker)
print("the test:", worker.samples, worker.metrics["loss"])
"""


@pytest.mark.long
def test_a_trainer_joins_under_a_launcher_and_starts_no_second_group(tmp_path: Path) -> None:
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
        outputs = [rank.communicate(timeout=120)[0].splitlines()[-1] for rank in ranks]
    virtual = trained(NAME)
    assert outputs == [f"the test: {virtual.summary.samples // 2} {virtual.final['loss']}"] * 2


def quoted() -> Iterator[tuple[str, str]]:
    """The differences that the page shows, with the name of the example."""
    yield from re.findall(r'^```diff title="(\w+)\.py"\n(.*?)^```$', PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_quotes_the_examples() -> None:
    shown = dict(quoted())
    assert set(shown) == {path.stem for path in EXAMPLES.glob("*.py")}
    for name, text in shown.items():
        new, old = ((folder / f"{name}.py").read_text(encoding="utf-8").splitlines() for folder in (EXAMPLES, EXAMPLES / "originals"))
        for line in text.splitlines():
            assert line[1:] in (old if line[0] == "-" else new), (name, line)
