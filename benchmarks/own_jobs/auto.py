"""A script with arguments of its own: an autoencoder of digits, judged by what it reconstructs."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

IMAGES = torch.tensor(load_digits().data, dtype=torch.float32) / 16


def train(worker, epochs=6, lr=2e-3, batch_size=16):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=16)
    width = parser.parse_args().width
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, width), nn.Linear(width, 96), nn.ReLU(), nn.Linear(96, 64))
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=lr))
    worker.evaluate(lambda found: {"reconstruction_error": (found(IMAGES[1400:]) - IMAGES[1400:]).square().mean().item()})
    for _ in range(epochs):
        for (x,) in worker.batches((IMAGES[:1400],), batch_size=batch_size):
            optimizer.zero_grad()
            (model(x) - x).square().mean().backward()
            optimizer.step()
