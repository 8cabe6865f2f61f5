"""Own schedule: the rate of a classifier of rings warms up and then falls in a line, both in steps."""

import torch
import torch.nn.functional as F
from torch import nn

DRAW = torch.Generator().manual_seed(3)
X = torch.randn(3000, 2, generator=DRAW)
Y = ((X.norm(dim=1) * 1.3).long() % 2).float()
TRAINING, HELD_OUT = slice(0, 2400), slice(2400, 3000)


def f1(found):
    said, true = found(X[HELD_OUT]).squeeze(1) > 0, Y[HELD_OUT] > 0.5
    right = (said & true).sum()
    return {"f1": (2 * right / (said.sum() + true.sum()).clamp(min=1)).item()}


def train(worker, epochs=8, lr=0.01, batch_size=16):
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=lr))
    steps = epochs * len(X[TRAINING]) // batch_size
    rise = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / rise, max(0.02, 1 - step / steps)))
    worker.evaluate(f1)
    for _ in range(epochs):
        for x, y in worker.batches((X[TRAINING], Y[TRAINING]), batch_size=batch_size):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(x).squeeze(1), y).backward()
            optimizer.step()
            schedule.step()
