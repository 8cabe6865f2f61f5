"""Classify handwritten digits in a loop of one's own with Lightning's Fabric."""

import argparse

import sklearn.datasets
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

from polyrhythm.integrations.lightning import FabricStrategy


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))
    fabric = Fabric(accelerator="cpu", strategy=FabricStrategy(worker))
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=0.01))
    training = fabric.setup_dataloaders(DataLoader(TensorDataset(x[:1408], y[:1408]), batch_size=args.batch_size))

    for _ in range(args.epochs):
        for inputs, targets in training:
            optimizer.zero_grad()
            fabric.backward(F.cross_entropy(model(inputs), targets))
            fabric.clip_gradients(model, optimizer, max_norm=0.5)
            optimizer.step()

    with torch.no_grad():
        scores, expected = model(x[1408:]), y[1408:]
    worker.report(accuracy=(scores.argmax(dim=1) == expected).float().mean(), loss=F.cross_entropy(scores, expected))


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/fabric_loop.py")
