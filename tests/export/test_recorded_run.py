"""The models of what runs leave behind: records, checkpoints, and training functions with the weights of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import ExportError, UnknownNameError
from polyrhythm.export.captured import model_of
from polyrhythm.export.recorded_run import trained_model

X = torch.linspace(-1, 1, 96).view(32, 3)


class Normed(nn.Module):
    """A frozen layer, statistics of batches, and two names of one weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, width, bias=False), nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 3, bias=False)
        self.again = self.last
        self.first.weight.requires_grad_(False)

    def forward(self, points: Tensor, scale: Tensor | None = None) -> Tensor:
        found: Tensor = self.again(self.norm(self.first(points)))
        return found if scale is None else found * scale


def train(worker: Any, width: int = 4, epochs: int = 2) -> None:
    model = Normed(width)
    model, optimizer = worker.attach(model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1))
    for _ in worker.epochs(epochs):
        for (x,) in worker.batches((X,), batch_size=4):
            optimizer.zero_grad()
            model(x, scale=torch.ones(len(x), 1)).square().mean().backward()
            optimizer.step()


def train_two(worker: Any) -> None:
    models = {name: nn.Linear(3, width) for name, width in (("encoder", 2), ("head", 5))}
    pairs = [worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), name=name) for name, model in models.items()]
    for (x,) in worker.batches((X,), batch_size=8):
        for model, optimizer in pairs:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()


def same(one: nn.Module, weights: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor, weights[name]) for name, tensor in one.state_dict().items())


def run(training: Callable[..., None], **options: Any) -> pr.Run:
    return pr.run(training, **{"workers": 2, "on": pr.Simulator(), "strategy": "allreduce", **options})


def test_a_training_function_and_the_weights_of_a_run_are_its_model_and_samples_of_its_inputs() -> None:
    done = run(train)
    found = model_of(train, done.weights, samples=10)
    assert same(found.model, done.weights)
    assert not found.model.training
    assert [tuple(each.shape) for each in found.samples] == [(10, 3), (10, 1)]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A file with the training functions of this one."""
    text = Path(__file__).read_text(encoding="utf-8")
    end = text.index("def same(")
    file = tmp_path / "job.py"
    file.write_text(text[:end], encoding="utf-8")
    return file


def test_a_record_and_a_checkpoint_have_the_weights_that_the_run_had(job: Path, tmp_path: Path) -> None:
    checkpoints = pr.Checkpoints(tmp_path / "checkpoints", every=4)
    done = run(pr.load_workload(str(job), {"width": 6}), directory=tmp_path / "record", checkpoints=checkpoints)
    assert same(trained_model(tmp_path / "record", job=str(job)).model, done.weights)
    newest = trained_model(tmp_path / "checkpoints", job=str(job), settings={"width": "6"})
    assert done.summary.steps == 8
    for name, parameter in newest.model.named_parameters():  # buffers are averaged when the run ends, and are worker 0's before
        assert torch.equal(parameter, done.weights[name]), name
    earlier = trained_model(sorted((tmp_path / "checkpoints").glob("step-*"))[0], job=str(job), settings={"width": 6})
    assert not same(earlier.model, done.weights)
    assert torch.equal(earlier.model.first.weight, done.weights["first.weight"])  # type: ignore[union-attr, arg-type]


def test_of_several_models_one_is_named() -> None:
    done = run(train_two)
    head = model_of(train_two, done.weights, model="head")
    assert torch.equal(head.model.weight, done.weights["head.weight"])  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="attaches several models, encoder, head: say which, with --model encoder"):
        model_of(train_two, done.weights)
    with pytest.raises(UnknownNameError, match="No model of the run is called 'tail'"):
        model_of(train_two, done.weights, model="tail")


def attach_nothing(worker: Any) -> None:
    worker.report(loss=1.0)


def call_a_part(worker: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 1))
    worker.attach(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.1))
    for (x,) in worker.batches((X,), batch_size=8):
        optimizer.zero_grad()
        model[0](x).sum().backward()
        optimizer.step()


def call_with_text(worker: Any) -> None:
    class Named(nn.Linear):
        def forward(self, x: Tensor, kind: str = "") -> Tensor:
            return super().forward(x)

    model = Named(3, 1)
    worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(X, "text")


def raise_early(worker: Any) -> None:
    raise ValueError("no data here")


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (attach_nothing, r"never called worker\.attach"),
        (call_a_part, "never calls the model 0 itself, so its inputs are not known"),
        (call_with_text, "^The training function calls the model 0 with a str, which is no tensor"),
        (raise_early, "no data here"),
    ],
)
def test_a_training_function_that_shows_no_model_is_a_sentence(training: Callable[[Any], None], message: str) -> None:
    with pytest.raises(pr.PolyrhythmError, match=message):
        model_of(training, {})


def test_what_is_no_run_or_anothers_is_a_sentence(job: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="is neither the record of a run nor a checkpoint"):
        trained_model(tmp_path)
    with pytest.raises(ExportError, match="is neither the record of a run nor a checkpoint"):
        trained_model(tmp_path / "nothing")
    run(train, directory=tmp_path / "record", checkpoints=pr.Checkpoints(tmp_path / "checkpoints", every=4))
    with pytest.raises(ExportError, match=r"is the record of a run of pr.run, which does not name its JOB: give --job"):
        trained_model(tmp_path / "record")
    (program := tmp_path / "program.py").write_text("import torch.distributed as dist\ndist.init_process_group('gloo')\n")
    pr.simulate(program, ranks=2, directory=tmp_path / "simulated")
    with pytest.raises(ExportError, match=r"is the record of a program of torch.distributed, .*program.py, which keeps no weights"):
        trained_model(tmp_path / "simulated")
    with pytest.raises(ExportError, match="is a checkpoint, which does not name its JOB"):
        trained_model(tmp_path / "checkpoints")
    with pytest.raises(ExportError, match="The weights of the run are not those of the JOB's model"):
        trained_model(tmp_path / "record", job=str(job), settings={"width": 9})
    with pytest.raises(ExportError, match="holds other parameters than the JOB's model has"):
        trained_model(tmp_path / "checkpoints", job="digits-cnn")
    (tmp_path / "record" / "weights.safetensors").unlink()
    with pytest.raises(ExportError, match="has no weights: the run failed"):
        trained_model(tmp_path / "record", job=str(job))
