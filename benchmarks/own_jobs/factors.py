"""Another metric: the mean absolute error of ratings that a factorization predicts."""

import torch
from torch import nn

USERS, ITEMS, RANK = 120, 80, 4
DRAW = torch.Generator().manual_seed(21)
TASTES, TRAITS = torch.randn(USERS, RANK, generator=DRAW), torch.randn(ITEMS, RANK, generator=DRAW)
PAIRS = torch.stack([torch.randint(USERS, (8000,), generator=DRAW), torch.randint(ITEMS, (8000,), generator=DRAW)], 1)
RATINGS = (TASTES[PAIRS[:, 0]] * TRAITS[PAIRS[:, 1]]).sum(1) / RANK**0.5 + 0.2 * torch.randn(8000, generator=DRAW)


class Factors(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, rank), nn.Embedding(ITEMS, rank)

    def forward(self, pairs):
        return (self.users(pairs[:, 0]) * self.items(pairs[:, 1])).sum(1)


def train(worker, epochs=6, lr=0.02, batch_size=32):
    model = Factors(6)
    for table in (model.users, model.items):
        nn.init.normal_(table.weight, std=0.3)
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=lr))
    worker.evaluate(lambda found: {"test_mae": (found(PAIRS[6400:]) - RATINGS[6400:]).abs().mean().item()})
    for _ in range(epochs):
        for pairs, ratings in worker.batches((PAIRS[:6400], RATINGS[:6400]), batch_size=batch_size):
            optimizer.zero_grad()
            (model(pairs) - ratings).square().mean().backward()
            optimizer.step()
