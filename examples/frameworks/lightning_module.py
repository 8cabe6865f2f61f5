"""Classify handwritten digits with a LightningModule and Lightning's Trainer."""

import argparse

import lightning
import sklearn.datasets
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from polyrhythm.integrations.lightning import WorkerStrategy


class Classifier(lightning.LightningModule):
    """A perceptron, its optimizer and its schedule."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self.layers(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        scores = self.layers(x)
        self.log("loss", F.cross_entropy(scores, y), sync_dist=True)
        self.log("accuracy", (scores.argmax(dim=1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    training = DataLoader(TensorDataset(x[:1408], y[:1408]), batch_size=args.batch_size)
    validation = DataLoader(TensorDataset(x[1408:1792], y[1408:1792]), batch_size=args.batch_size)
    options = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    options |= {"gradient_clip_val": 0.5, "accumulate_grad_batches": 2}
    torch.manual_seed(0)
    trainer = lightning.Trainer(strategy=WorkerStrategy(worker), max_epochs=args.epochs, **options)
    trainer.fit(Classifier(), training, validation)
    metrics = trainer.callback_metrics
    worker.report(accuracy=metrics["accuracy"], loss=metrics["loss"])


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/lightning_module.py")
