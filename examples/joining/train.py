"""Train on as many hosts as there are: each runs this script, and others may join and leave meanwhile."""

import torch
from torch.nn import functional as F

import polyrhythm as pr

generator = torch.Generator().manual_seed(0)  # the same data at every host
inputs = torch.randn(4096, 20, generator=generator)
labels = (inputs @ torch.randn(20, 5, generator=generator)).argmax(1)

worker = pr.join("allreduce", workers=(2, 8), seed=1)
model = torch.nn.Linear(20, 5)
model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
worker.on_change(lambda change: print("step", worker.clock, "now", *change.after, flush=True))
for _ in worker.epochs(40):
    for x, y in worker.batches((inputs, labels), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
run = worker.leave()
print("trained", run.summary.steps, "steps, accuracy", round((model(inputs).argmax(1) == labels).float().mean().item(), 2))
