"""Own batches: an encoder of digits learns by contrast that two noisy views of one image belong together."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

IMAGES = torch.tensor(load_digits().data, dtype=torch.float32) / 16
TRAINING, HELD_OUT = IMAGES[:1400], IMAGES[1400:]


def views(images, generator=None):
    return [images + 0.2 * torch.randn(images.shape, generator=generator) for _ in range(2)]


def train(worker, updates=150, lr=0.1, batch_size=32):
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9))
    first, second = views(HELD_OUT, torch.Generator().manual_seed(0))

    def recall(found):
        alike = F.normalize(found(first), dim=1) @ F.normalize(found(second), dim=1).T
        return {"recall_at_1": (alike.argmax(1) == torch.arange(len(alike))).float().mean().item()}

    worker.evaluate(recall)
    for _ in range(updates):
        a, b = views(TRAINING[torch.randperm(len(TRAINING))[:batch_size]])
        alike = F.normalize(model(a), dim=1) @ F.normalize(model(b), dim=1).T / 0.1
        optimizer.zero_grad()
        F.cross_entropy(alike, torch.arange(len(a))).backward()
        optimizer.step()
        worker.count(len(a))
