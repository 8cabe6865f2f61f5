"""Two hosts push to a third at once, the second a little later: how far apart do they end? In the simulator: as far as they began.

    polyrhythm lab --hosts 3 --network slow -- python benchmarks/leads.py --megabytes 4.5 --leads 0 0.02 0.1 0.3 --trials 10

A row is a lead in seconds; the last arrival after the start of both; the lead at the end, its mean and standard deviation over trials, and
each. A push that paused (BBR lets a path run dry for a fifth of a second every ten) shows as a lead that is off by that.
"""

from __future__ import annotations

import argparse
import statistics

import torch

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment
from polyrhythm.tools.measuring.links import survey_job

SENDERS = (1, 2)
QUIET = 0.15
"""Seconds between trials."""
LOOK = 0.0005


async def receive(port: Port, leads: list[float], trials: int) -> None:
    """Rank 0: start the others, and note when what they push has come."""
    print("| lead, s | last, s | lead at the end, s (standard deviation) | each |\n|---|---|---|---|", flush=True)
    for lead in leads:
        ends = [await trial(port, lead) for _ in range(trials)]
        late = [second - first for first, second in ends]
        last = statistics.median(max(end) for end in ends)
        each = " ".join(f"{seconds:.3f}" for seconds in late)
        print(f"| {lead} | {last:.3f} | {statistics.mean(late):.4f} ({statistics.stdev(late):.4f}) | {each} |", flush=True)
    for sender in SENDERS:
        await port.send(worker(sender), Message("go", (-1.0,)))


async def trial(port: Port, lead: float) -> tuple[float, float]:
    """When each push has come, after the word to begin."""
    await port.sleep(QUIET)
    came: dict[int, float] = {}
    for sender in SENDERS:
        await port.spawn(f"arrival of {sender}", arrival(port, sender, came))
    began = port.now()
    for sender, wait in zip(SENDERS, (0.0, lead), strict=True):
        await port.send(worker(sender), Message("go", (wait,)))
    while len(came) < len(SENDERS):
        await port.sleep(LOOK)
    return came[1] - began, came[2] - began


async def arrival(port: Port, sender: int, came: dict[int, float]) -> None:
    """Note the moment."""
    await port.receive(f"push {sender}", worker(sender))
    came[sender] = port.now()


async def push(port: Port, rank: int, numel: int) -> None:
    """Ranks 1 and 2: push after the wait that is told, until a negative one comes."""
    value = torch.zeros(numel)
    while (delivery := await port.receive("go", worker(0))) and delivery.message.numbers[0] >= 0:
        await port.sleep(delivery.message.numbers[0])
        await port.send(worker(0), Message(f"push {rank}", tensors=(value,)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4.5)
    parser.add_argument("--leads", type=float, nargs="+", default=[0.0, 0.02, 0.1, 0.3])
    parser.add_argument("--trials", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rank = find_rank_environment().rank
    with enter(survey_job(3), lambda event: None) as joined:
        port = joined.context.port
        side = push(port, rank, int(given.megabytes * 250_000)) if rank else receive(port, given.leads, given.trials)
        joined.context.perform(side)


if __name__ == "__main__":
    main()
