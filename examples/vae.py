"""Learn to draw handwritten digits with a variational autoencoder (Kingma and Welling, 2014)."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=128, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        noise = torch.randn_like(mean)
        return self.decoder(mean + noise * torch.exp(0.5 * log_variance)), mean, log_variance


def bound(model, x):
    """The negative evidence lower bound of each image, in nats."""
    logits, mean, log_variance = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.square() - log_variance.exp())
    return (reconstruction + divergence) / len(x)


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    loader = worker.batches(DataLoader(TensorDataset(images[:1500]), batch_size=args.batch_size, shuffle=True, drop_last=True))
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, optimizer = worker.attach(model, optimizer)

    for epoch in range(args.epochs):
        total = 0.0
        for (x,) in loader:
            optimizer.zero_grad()
            loss = bound(model, x)
            loss.backward()
            optimizer.step()
            total += loss.item()
        with torch.no_grad():
            test = bound(model, images[1500:]).item()
        worker.report(epoch=epoch, training_loss=total / len(loader), test_loss=test)


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/vae.py")
