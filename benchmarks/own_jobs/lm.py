"""Own batches: a small GPT draws windows of Python's help texts at random, for a number of iterations."""

from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "".join(topics[key] for key in sorted(topics))[:120_000]
KNOWN = {each: number for number, each in enumerate(sorted(set(TEXT)))}
TOKENS = torch.tensor([KNOWN[each] for each in TEXT])
TRAINING, HELD_OUT = TOKENS[:100_000], TOKENS[100_000:]
LENGTH, WIDTH = 32, 48


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(KNOWN), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, len(KNOWN))

    def forward(self, x):
        return self.head(self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]]))


def get_batch(tokens, batch_size, generator=None):
    begins = torch.randint(len(tokens) - LENGTH - 1, (batch_size,), generator=generator)
    windows = torch.stack([tokens[begin : begin + LENGTH + 1] for begin in begins])
    return windows[:, :-1], windows[:, 1:]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(worker, max_iters=300, learning_rate=3e-3, batch_size=8):
    model = GPT()
    model, optimizer = worker.attach(model, torch.optim.AdamW(model.parameters(), lr=learning_rate))
    held_out = get_batch(HELD_OUT, 32, torch.Generator().manual_seed(0))
    worker.evaluate(lambda found: {"val_loss": loss_of(found, *held_out).item()})
    for _ in range(max_iters):
        x, y = get_batch(TRAINING, batch_size)
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, x, y).backward()
        optimizer.step()
