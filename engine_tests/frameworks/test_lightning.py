"""Lightning's Trainer and Fabric as one of many workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from framework_examples import CLOSE, changed, original_loss, trained
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.lightning import FabricStrategy, WorkerStrategy

NAMES = ("lightning_module", "fabric_loop")
pytestmark = pytest.mark.filterwarnings("default")  # Lightning warns of few cores, of srun, and of what torch has deprecated


@pytest.mark.parametrize("name", NAMES)
def test_at_most_five_lines_of_the_example_change(name: str) -> None:
    assert 0 < changed(name) <= 5


@pytest.mark.parametrize("name", NAMES)
def test_two_workers_have_the_loss_of_the_single_process(name: str) -> None:
    outcome = trained(name, on=Processes())
    assert outcome.final["loss"] == pytest.approx(original_loss(name), abs=CLOSE)
    assert outcome.summary.samples == 1408
    assert outcome.summary.weights_sha256 == trained(name).summary.weights_sha256


@pytest.mark.parametrize("system", ["diloco", "ssp"])
@pytest.mark.parametrize("name", NAMES)
def test_other_systems_train_it(name: str, system: str) -> None:
    assert trained(name, system).final["loss"] < 1.2


class Line(lightning.LightningModule):
    """A line, that logs what all workers find."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(2, 1)

    def training_step(self, batch: Any, index: int) -> Any:
        return F.mse_loss(self.line(batch[0]), batch[1])

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("error", F.mse_loss(self.line(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def loader(shuffle: bool = False) -> Any:
    x = torch.randn(32, 2, generator=torch.Generator().manual_seed(2))
    return DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=4, shuffle=shuffle)


def fitted(worker: Any, epochs: int, folder: Path, resumed: str | None = None, callbacks: Any = (), **options: Any) -> Any:
    torch.manual_seed(0)
    saving = ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, **options}
    trainer = lightning.Trainer(strategy=WorkerStrategy(worker), max_epochs=epochs, callbacks=[saving, *callbacks], **options)
    trainer.fit(Line(), loader(shuffle=True), loader(), ckpt_path=resumed)
    return trainer


def go(train: Any, strategy: str = "allreduce") -> Any:
    return run(train, workers=2, strategy=strategy, on=Simulator(network=Instant()), seed=1)


def test_worker_0_alone_saves_and_a_resumed_training_ends_as_the_whole_one(tmp_path: Path) -> None:
    errors: dict[int, float] = {}

    def train(worker: Any) -> None:
        errors[worker.rank] = fitted(worker, 3, tmp_path / str(worker.rank)).callback_metrics["error"].item()

    whole = go(train)
    assert errors[0] == errors[1]
    [folder] = tmp_path.iterdir()  # worker 0 says where
    assert sorted(each.name for each in folder.iterdir()) == ["epoch=0.ckpt", "epoch=1.ckpt", "epoch=2.ckpt"]
    again = go(lambda worker: fitted(worker, 3, tmp_path / "again", str(folder / "epoch=1.ckpt")) and None)
    for name, weight in whole.weights.items():
        torch.testing.assert_close(again.weights[name], weight)


def test_all_workers_stop_early_together(tmp_path: Path) -> None:
    def train(worker: Any) -> None:
        stopping = EarlyStopping("error", patience=0, min_delta=10.0)
        trainer = fitted(worker, 9, tmp_path, callbacks=[stopping])
        worker.report(epochs=trainer.current_epoch)

    assert go(train, "diloco").final["epochs"] < 9


def test_several_optimizers_are_attached_one_by_one(tmp_path: Path) -> None:
    class Two(Line):
        def __init__(self) -> None:
            super().__init__()
            self.other = torch.nn.Linear(2, 1)
            self.automatic_optimization = False

        def training_step(self, batch: Any, index: int) -> None:
            for optimizer, part in zip(self.optimizers(), (self.line, self.other), strict=True):
                optimizer.zero_grad()
                self.manual_backward(F.mse_loss(part(batch[0]), batch[1]))
                self.clip_gradients(optimizer, 0.5, "norm")
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(part.parameters(), lr=0.05) for part in (self.line, self.other)]

    def train(worker: Any) -> None:
        options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
        lightning.Trainer(strategy=WorkerStrategy(worker), max_epochs=1, **options).fit(Two(), loader())
        assert len(worker.attached) == 2

    assert go(train).summary.samples == 32


def test_clipping_by_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match="clip by norm"):
        go(lambda worker: fitted(worker, 1, tmp_path, gradient_clip_val=0.5, gradient_clip_algorithm="value") and None)


def test_fabric_speaks_with_all_workers_and_saves_once(tmp_path: Path) -> None:
    def train(worker: Any) -> None:
        fabric = Fabric(accelerator="cpu", strategy=FabricStrategy(worker))
        fabric.launch()
        model = torch.nn.Linear(2, 1)
        model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        assert (fabric.world_size, fabric.global_rank, fabric.is_global_zero) == (2, worker.rank, worker.rank == 0)
        assert fabric.all_gather(torch.tensor([float(worker.rank)])).tolist() == [[0.0], [1.0]]
        assert fabric.all_reduce(torch.tensor(float(worker.rank)), reduce_op="sum").item() == 1.0
        assert fabric.all_reduce(torch.tensor(float(worker.rank))).item() == 0.5
        assert fabric.broadcast(worker.rank, src=1) == 1
        with fabric.no_backward_sync(model):
            fabric.backward(model(torch.ones(1, 2)).sum())
        optimizer.step()
        fabric.save(tmp_path / f"{worker.rank}.ckpt", {"model": model, "optimizer": optimizer})
        fabric.barrier()

    go(train)
    assert [each.name for each in tmp_path.iterdir()] == ["0.ckpt"]
