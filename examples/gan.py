"""Draw handwritten digits with two networks that play against each other (Goodfellow et al., 2014; convolutional: Radford et al., 2016)."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def generator(latent, width=16):
    """From noise (n, latent, 1, 1) to images (n, 1, 8, 8) between -1 and 1."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * width, 2, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def discriminator(width=16):
    """From images to the logit of each being a real one, (n,)."""
    return nn.Sequential(
        nn.Conv2d(1, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 1, 2),
        nn.Flatten(0),
    )


def cross_entropy(logits, target):
    """Of images that are all real (target 1), or all drawn (0)."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--latent", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    images = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    loader = worker.batches(DataLoader(TensorDataset(images), batch_size=args.batch_size, shuffle=True))
    G, D = generator(args.latent), discriminator()
    g_optimizer = torch.optim.Adam(G.parameters(), lr=args.lr, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(D.parameters(), lr=args.lr, betas=(0.5, 0.999))
    (G, g_optimizer), (D, d_optimizer) = worker.attach(G, g_optimizer, name="G"), worker.attach(D, d_optimizer, name="D")

    for epoch in range(args.epochs):
        for (real,) in loader:
            fake = G(torch.randn(len(real), args.latent, 1, 1))
            d_optimizer.zero_grad()
            d_loss = cross_entropy(D(real), 1.0) + cross_entropy(D(fake.detach()), 0.0)
            d_loss.backward()
            d_optimizer.step()
            g_optimizer.zero_grad()
            g_loss = cross_entropy(D(fake), 1.0)
            g_loss.backward()
            g_optimizer.step()
        with torch.no_grad():
            mean = G(torch.randn(500, args.latent, 1, 1)).mean(dim=0)
        distance = (mean - images.mean(dim=0)).abs().mean()
        worker.report(epoch=epoch, discriminator=d_loss, generator=g_loss, distance=distance)


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/gan.py")
