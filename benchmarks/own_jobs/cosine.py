"""Own schedule: a CNN on digits whose rate follows half a cosine over all epochs."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

DIGITS = load_digits()
X, Y = torch.tensor(DIGITS.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(DIGITS.target)


def train(worker, epochs=4, lr=0.1, batch_size=16):
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    worker.evaluate(lambda found: {"top1": (found(X[1400:]).argmax(1) == Y[1400:]).float().mean().item()})
    for _ in range(epochs):
        for x, y in worker.batches((X[:1400], Y[:1400]), batch_size=batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        schedule.step()
