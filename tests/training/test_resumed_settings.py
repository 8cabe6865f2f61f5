"""Runs that are resumed with other settings than wrote the checkpoint: refused, overridden, or reported."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.simulator import Instant
from polyrhythm.core.training.circumstances import ENDS_ALIKE, SCRIPT, changes, circumstances, moved, promise
from polyrhythm.errors import CheckpointError, CompositionError, ResumedWarning

DATA = torch.randn(32, 6, generator=torch.Generator().manual_seed(3))
Program = Callable[[pr.Worker], object]


def train(
    worker: pr.Worker,
    data: Any = (DATA,),
    size: int = 4,
    kind: Any = torch.optim.SGD,
    later: float = 0.0,
    **options: Any,
) -> None:
    """`later` is the learning rate from step 2 on, set by the training function."""
    model = nn.Linear(6, 1)
    optimizer = kind(model.parameters(), **{"lr": 0.1, **options})
    worker.attach(model, optimizer)
    for _ in range(2):
        for (x,) in worker.batches(data, size):
            if later and worker.clock == 2:
                optimizer.param_groups[0]["lr"] = later
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()


def go(program: Program, strategy: str = "allreduce", **options: Any) -> pr.Run:
    return pr.run(program, workers=2, strategy=strategy, on=pr.Simulator(network=Instant()), seed=5, **options)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"lr": 0.2}, r"lr of SGD is 0.2 here and was 0.1 .* override=\['lr'\] \(--override lr\)"),
        ({"momentum": 0.9}, r"momentum of SGD is 0.9 here and was 0 in"),
        ({"nesterov": True, "momentum": 0.9}, r"momentum of SGD is 0.9"),
        ({"kind": torch.optim.Adam}, r"The optimizer is Adam here and was SGD .* resume with SGD"),
        ({"size": 8}, r"over tensors of 32 samples in batches of 4, and now it is over tensors of 32 samples in batches of 8"),
        ({"data": (DATA[:16],)}, r"over tensors of 32 samples in batches of 4, and now it is over tensors of 16"),
        ({"data": (DATA + 1,)}, r"and now it is over other numbers in these.*override=\['data'\]"),
    ],
)
def test_other_settings_are_refused_by_name(now: dict[str, Any], message: str, tmp_path: Path) -> None:
    go(train, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    with pytest.raises(CheckpointError, match=message):
        go(partial(train, **now), checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))


class Limited(torch.optim.SGD):
    """Has options of its own, of which some are no numbers."""

    def __init__(self, params: Any, lr: float, limit: float, limits: tuple[float, float]) -> None:
        super().__init__(params, lr=lr)
        for group in self.param_groups:
            group.update(limit=limit, limits=limits)


def test_an_option_that_is_not_a_number_is_the_same_in_a_resumed_run(tmp_path: Path) -> None:
    own = partial(train, kind=Limited, limit=float("nan"), limits=(0.0, float("nan")))
    whole = go(own, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    again = go(own, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))
    assert again.summary.weights_sha256 == whole.summary.weights_sha256
    with pytest.raises(CheckpointError, match=r"limits of Limited is \(0.0, 1.0\) here and was \(0.0, nan\)"):
        go(partial(own, limits=(0.0, 1.0)), checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))


def test_the_same_data_in_a_loader_are_no_other_data(tmp_path: Path) -> None:
    whole = go(train, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    loader = DataLoader(TensorDataset(DATA), batch_size=4, shuffle=True)
    again = go(lambda worker: train(worker, loader, None), checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))  # type: ignore[arg-type]
    assert again.summary.weights_sha256 == whole.summary.weights_sha256


@pytest.mark.parametrize("strategy", ["allreduce", "mxnet", "sparknet"])
def test_a_learning_rate_that_is_overridden_is_that_of_the_steps_to_come(strategy: str, tmp_path: Path) -> None:
    go(train, strategy, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    expected = go(partial(train, later=0.3), strategy)
    again = go(partial(train, lr=0.3), strategy, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002", override=["lr"]))
    assert again.summary.weights_sha256 == expected.summary.weights_sha256


def test_a_rate_that_a_schedule_has_changed_is_changed_by_the_same_factor(tmp_path: Path) -> None:
    rates: list[float] = []

    def watched(worker: pr.Worker, lr: float) -> None:
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        worker.attach(model, optimizer)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        for (x,) in worker.batches((DATA,), 4):
            model(x).sum().backward()
            optimizer.step()
            rates.append(optimizer.param_groups[0]["lr"])
            schedule.step()

    pr.run(partial(watched, lr=0.1), workers=1, strategy="single", on=pr.Simulator(), checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    before = rates[2:].copy()
    rates.clear()
    resume = tmp_path / "step-00000002"
    pr.run(
        partial(watched, lr=0.2),
        workers=1,
        strategy="single",
        on=pr.Simulator(),
        checkpoints=pr.Checkpoints(resume=resume, override=["lr"]),
    )
    assert rates == pytest.approx([2 * rate for rate in before])


def test_other_options_can_be_overridden(tmp_path: Path) -> None:
    whole = go(partial(train, weight_decay=0.0), checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    again = go(partial(train, weight_decay=0.5), checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002", override=["weight_decay"]))
    assert again.weights["weight"].norm() < whole.weights["weight"].norm()


def test_data_that_are_overridden_go_on_after_as_many_samples(tmp_path: Path) -> None:
    go(train, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    resume, override = tmp_path / "step-00000002", ["data"]
    assert go(partial(train, size=8), checkpoints=pr.Checkpoints(resume=resume, override=override)).summary.samples == 64
    with pytest.raises(CheckpointError, match=r"after 8 samples of a pass, which are no whole number of batches of 3"):
        go(partial(train, size=3), checkpoints=pr.Checkpoints(resume=resume, override=override))


def test_names_that_nothing_has_are_refused(tmp_path: Path) -> None:
    go(train, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    with pytest.raises(CheckpointError, match=r"override has 'rate', and there is no such setting: it can have .*data.*lr"):
        go(train, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002", override=["rate"]))
    with pytest.raises(CompositionError, match=r"override=\['lr'\] was given without resume"):
        go(train, checkpoints=pr.Checkpoints(override=["lr"]))
    with pytest.raises(CompositionError, match=r"override='lr' is not a list of names"):
        go(train, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002", override="lr"))


@pytest.mark.parametrize("name", sorted(systems.SYSTEMS))
def test_every_system_states_how_a_resumed_run_ends(name: str) -> None:
    strategy = systems.find(name)
    assert (promise(strategy) == ENDS_ALIKE) is not strategy.order_matters


def test_how_a_run_resumes_is_in_the_manifest_and_in_the_record(tmp_path: Path) -> None:
    go(train, "ssp", checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    again = go(train, "ssp", checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))
    manifest = json.loads((tmp_path / "step-00000002" / "manifest.json").read_text())
    assert manifest["resumes"].startswith("Under ssp results depend on the order in which messages arrive")
    assert again.outcome.settings["how it resumes"] == manifest["resumes"]
    assert manifest["circumstances"].keys() == {"torch", "Python", "runtime", SCRIPT}


def test_another_runtime_is_reported_and_another_file_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(train, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    resume = tmp_path / "step-00000002"
    again = pr.run(train, workers=2, on=pr.Simulator(network="lan"), seed=5, checkpoints=pr.Checkpoints(resume=resume))
    assert "and the run goes on in simulator lan" in again.outcome.settings["how it resumes"]
    monkeypatch.setattr("platform.python_version", lambda: "3.99")
    with pytest.warns(ResumedWarning, match=r"The checkpoint was written with Python .*, and the run goes on with 3.99"):
        go(train, checkpoints=pr.Checkpoints(resume=resume))


def test_changes_are_sentences() -> None:
    here: dict[str, str] = circumstances(train, "processes")
    assert changes(here, here) == moved(here, here) == []
    [changed] = changes({**here, SCRIPT: "test_resumed_settings.py, 0"}, here)
    assert changed == "test_resumed_settings.py has changed since the checkpoint was written: the run goes on as it is now."
    [elsewhere] = changes({**here, SCRIPT: "train.py, 0"}, here)
    assert elsewhere.startswith("The training function is in test_resumed_settings.py now, and was in train.py since")
