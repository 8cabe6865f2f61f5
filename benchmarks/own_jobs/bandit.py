"""Own batches: a policy for contextual bandits learns by REINFORCE from its own actions."""

import torch
from torch import nn

ARMS, WIDTH = 5, 12
PAYS = torch.randn(WIDTH, ARMS, generator=torch.Generator().manual_seed(7))


def contexts(number, generator=None):
    return torch.randn(number, WIDTH, generator=generator)


def train(worker, episodes=400, lr=0.02, batch_size=16):
    model = nn.Sequential(nn.Linear(WIDTH, 48), nn.Tanh(), nn.Linear(48, ARMS))
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=lr))
    seen = contexts(512, torch.Generator().manual_seed(8))
    gains = torch.tanh(seen @ PAYS / 2)
    worker.evaluate(lambda found: {"mean_reward": (found(seen).softmax(1) * gains).sum(1).mean().item()})
    for _ in range(episodes):
        here = contexts(batch_size)
        policy = torch.distributions.Categorical(logits=model(here))
        actions = policy.sample()
        rewards = torch.tanh(here @ PAYS / 2).gather(1, actions[:, None]).squeeze(1) + 0.3 * torch.randn(batch_size)
        optimizer.zero_grad()
        (-(rewards - rewards.mean()) * policy.log_prob(actions)).mean().backward()
        optimizer.step()
