"""Laws of what collectives cost: rounds and bytes are those of the formulas of each backend, and values are equal to the bit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import polyrhythm as pr
from polyrhythm.core.kernel.events import Communicated
from polyrhythm.hardware.network import Network
from polyrhythm.process_group.messages.algorithms import MEMBERS

from .gathers import all_gather, reduce_scatter

LATENCY = 1.0
FAR = pr.Simulator(network=Network.uniform("far", "1000000 Gbit/s", "1 s"))


def value(numel: int) -> Tensor:
    return torch.randn(numel, generator=torch.Generator().manual_seed(dist.get_rank()))


def scatter(own: Tensor, root: int) -> Tensor:
    ranks = dist.get_world_size()
    part = torch.empty(own.numel() // ranks)
    dist.scatter(part, list(own.chunk(ranks)) if dist.get_rank() == root else None, root)
    return part


def gather(own: Tensor, root: int) -> Tensor:
    whole = [torch.empty_like(own) for _ in range(dist.get_world_size())] if dist.get_rank() == root else None
    dist.gather(own, whole, root)
    return torch.cat(whole or [own])


def all_to_all(own: Tensor) -> Tensor:
    dist.all_to_all_single(own, own.clone())
    return own


def send(own: Tensor) -> Tensor:
    rank = dist.get_rank()
    if rank == 0:
        dist.send(own, 1)
    elif rank == 1:
        dist.recv(own, 0)
    return own


def in_place(do: Callable[[Tensor], object]) -> Callable[[Tensor], Tensor]:
    def done(own: Tensor) -> Tensor:
        do(own)
        return own

    return done


ISSUED: dict[str, Callable[[Tensor], Tensor]] = {
    "all_reduce": in_place(dist.all_reduce),
    "reduce_scatter": reduce_scatter,
    "all_gather": all_gather,
    "broadcast": in_place(lambda own: dist.broadcast(own, 1)),
    "reduce": in_place(lambda own: dist.reduce(own, 1)),
    "gather": lambda own: gather(own, 1),
    "scatter": lambda own: scatter(own, 1),
    "all_to_all": all_to_all,
    "barrier": in_place(lambda own: dist.barrier()),
    "send": send,
}


def expected(kind: str, owns: list[Tensor], rank: int) -> Tensor:
    total, ranks = torch.stack(owns).sum(0), len(owns)
    parts = [own.chunk(ranks) for own in owns]
    at_root = {"reduce": total, "gather": torch.cat(owns)}
    if kind in at_root:
        return at_root[kind] if rank == 1 else owns[rank]
    return {
        "all_reduce": total,
        "reduce_scatter": total.chunk(ranks)[rank],
        "all_gather": torch.cat(owns),
        "broadcast": owns[1],
        "scatter": parts[1][rank],
        "all_to_all": torch.cat([part[rank] for part in parts]),
        "barrier": owns[rank],
        "send": owns[0] if rank == 1 else owns[rank],
    }[kind]


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning", "ignore:Attempted to get default timeout for nccl")
@pytest.mark.parametrize("numel", [120, 60_000])
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("backend", MEMBERS)
def test_rounds_bytes_and_values_are_those_of_the_formulas(backend: str, ranks: int, numel: int) -> None:
    numel = numel // ranks * ranks
    lasted: dict[str, float] = {}
    results: dict[tuple[str, int], Tensor] = {}
    owns: dict[int, Tensor] = {}

    def main() -> None:
        dist.init_process_group(backend)
        rank = dist.get_rank()
        owns[rank] = value(numel)
        for number, (kind, issue) in enumerate(ISSUED.items()):
            time.sleep(1000 * (number + 1) - time.monotonic())
            results[kind, rank] = issue(owns[rank].clone())
            lasted[kind] = max(lasted.get(kind, 0.0), time.monotonic() - 1000 * (number + 1))

    sent: Counter[str] = Counter()
    for event in pr.simulate(main, ranks=ranks, on=FAR).outcome.events:
        if isinstance(event, Communicated):
            sent[event.what.split()[0]] += event.nbytes
    for kind, cost in MEMBERS[backend].costs.items():
        assert round(lasted[kind] / LATENCY, 3) == cost.rounds(ranks, 4 * numel), kind
        assert sent[kind] == pytest.approx(cost.nbytes(ranks, 4 * numel), rel=0.02, abs=200 * ranks**2 * 4), kind
        for rank in range(ranks):
            wanted = expected(kind, [owns[each] for each in range(ranks)], rank)
            assert torch.allclose(results[kind, rank], wanted, atol=1e-5) or (kind == "reduce" and rank != 1), (kind, rank)
    assert all(torch.equal(results["all_reduce", 0], results["all_reduce", rank]) for rank in range(ranks))


@pytest.mark.parametrize("ranks", [2, 4])
def test_two_segments_of_a_large_sum_are_under_way_at_once(ranks: int) -> None:
    numel, lasted = 2_800_000, list[float]()

    def main() -> None:
        dist.init_process_group("gloo")
        dist.all_reduce(torch.ones(numel))
        lasted.append(time.monotonic())

    pr.simulate(main, ranks=ranks, on=FAR)
    assert round(max(lasted), 2) == MEMBERS["gloo"].costs["all_reduce"].rounds(ranks, 4 * numel) > 4 * (ranks - 1)


def test_a_receive_that_is_posted_ahead_saves_a_round_and_one_from_anyone_costs_one_more() -> None:
    def lasts(receive: Callable[[], object]) -> float:
        lasted: list[float] = []

        def main() -> None:
            dist.init_process_group("gloo")
            if dist.get_rank() == 1:
                time.sleep(10)
                dist.send(torch.ones(2), 0)
            else:
                receive()
                lasted.append(time.monotonic() - 10)

        pr.simulate(main, ranks=2, on=FAR)
        return round(lasted[0], 3)

    assert lasts(lambda: dist.recv(torch.ones(2), 1)) == 1
    assert lasts(lambda: (time.sleep(10), dist.recv(torch.ones(2), 1))) == 2
    assert lasts(lambda: dist.recv(torch.ones(2))) == 3
