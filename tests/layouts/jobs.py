"""Small jobs and machines that plans are made for."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import polyrhythm as pr
from polyrhythm.hardware.network import Site
from polyrhythm.workloads.gpt import Gpt, GptSize

SIZE = GptSize(11, 8, layers=3, width=16, heads=4)
RULES = {"heads": "tp", "mlp": "tp"}


def of_symbols(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def job(size: GptSize = SIZE, batch_size: int = 16) -> pr.LayoutJob:
    """A GPT that is to find a fixed symbol for each."""
    drawn = torch.Generator().manual_seed(0)
    symbols = torch.randint(size.vocabulary, (4 * batch_size, size.context), generator=drawn)
    optimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.5)
    return pr.LayoutJob(partial(Gpt, size), of_symbols, optimizer, (symbols, (3 * symbols + 1) % size.vocabulary), batch_size)


def two_sites(line: float = 1e6, latency: float = 0.02) -> pr.Network:
    """Two sites with a line of so many bytes per second between them, and fast ones inside."""
    inside = [Site(name, 1e9, 1e9, 1e-5) for name in ("east", "west")]
    pairs = [("east", "west"), ("west", "east")]
    return pr.Network.joined("two-sites", inside, dict.fromkeys(pairs, latency), dict.fromkeys(pairs, line))


def simulator(network: pr.Network | pr.Instant | None = None, devices: object = None) -> pr.Simulator:
    return pr.Simulator(network=network or two_sites(), devices=devices or pr.Device("slow", 1e9, 1e-3))  # type: ignore[arg-type]
