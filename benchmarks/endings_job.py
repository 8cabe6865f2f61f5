"""The JOB of `endings.py`: a small network on random data, which trains until it is ended.

SIGUSR1 shuts one of the process's connections down, as a line does that breaks.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import threading
import time
from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import nn

import polyrhythm as pr

PACE = 0.01
EPOCHS = 100_000


def cut(*_: object) -> None:
    """Shut down a connection of this process, be it with another worker, a server or its launcher."""
    connected = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                mine = socket.socket(fileno=os.dup(int(name)))
                mine.getpeername()
                connected.append(mine)
    if connected:
        with suppress(OSError):
            random.choice(connected).shutdown(socket.SHUT_RDWR)


def train(worker: pr.Worker) -> None:
    """Two layers, two classes."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, cut)
    torch.manual_seed(0)
    x, y = torch.randn(512, 8), torch.randint(0, 2, (512,))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in range(EPOCHS):
        for inputs, targets in worker.batches((x, y), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            time.sleep(PACE)
