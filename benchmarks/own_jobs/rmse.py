"""Another metric: the root of the mean square error of a regression on waves."""

import torch
from torch import nn

DRAW = torch.Generator().manual_seed(11)
X = torch.rand(4000, 6, generator=DRAW) * 2 - 1
Y = (torch.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * torch.cos(4 * X[:, 3]) + 0.1 * torch.randn(4000, generator=DRAW)).unsqueeze(1)


def train(worker, epochs=6, learning_rate=0.05, batch=16):
    model = nn.Sequential(nn.Linear(6, 128), nn.Tanh(), nn.Linear(128, 1))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9))
    worker.evaluate(lambda found: {"rmse": (found(X[3200:]) - Y[3200:]).square().mean().sqrt().item()})
    for _ in range(epochs):
        for x, y in worker.batches((X[:3200], Y[:3200]), batch_size=batch):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
