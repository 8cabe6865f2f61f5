"""Links that are shared in C give what those in Python give, bit for bit: deliveries, losses, the whole record of a run."""

from __future__ import annotations

import gc
import math
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from toy import Toy

import polyrhythm as pr
from polyrhythm.core.simulator import simulator
from polyrhythm.core.simulator.flows import Flows
from polyrhythm.core.simulator.sharing_parts import BEST, NATIVE, PORTABLE, SharingParts
from polyrhythm.hardware import network as networks


def test_this_installation_has_the_parts_in_c() -> None:
    assert NATIVE is not None
    assert BEST is NATIVE


def played(name: str, workers: int, seed: int, parts: SharingParts) -> list[Any]:
    """What a driver sees that starts messages, cuts connections and loses actors at random."""
    draws, found, now = random.Random(seed), list[Any](), 0.0
    flows, actors, cut = Flows(networks.load(name), workers, seed, parts), [f"worker/{rank}" for rank in range(workers)], list[list[str]]()
    for _ in range(120):
        for number in range(draws.choice((0, 0, 1, 3, 40))):
            nbytes = draws.choice((0, 1, 100, 10_000, 5_000_000, draws.randrange(10**6)))
            flows.start(now, *draws.sample(actors, 2), nbytes, (now, number))
        due = flows.next_time()
        now = now + draws.random() * 0.01 if due == math.inf else due if draws.random() < 0.8 else min(due, now + draws.random() * 1e-3)
        found.append((now, flows.advance(now), flows.sending(draws.choice(actors)), [*flows.fell_silent]))
        flows.fell_silent.clear()
        if draws.random() < 0.05:
            cut.append(draws.sample(actors, 2))
            flows.block(now, *cut[-1], True)
        elif cut and draws.random() < 0.1:
            flows.block(now, *cut.pop(), False)
        if draws.random() < 0.02:
            found.append(flows.forget(now, draws.choice(actors)))
    return found


@pytest.mark.parametrize("few", [0, 4, 32])
@pytest.mark.parametrize("workers", [3, 30])
@pytest.mark.parametrize("name", ["lan", "slow", "wan-11"])
def test_random_traffic_is_carried_alike(name: str, workers: int, few: int) -> None:
    for seed in range(2):
        assert played(name, workers, seed, replace(BEST, few=few)) == played(name, workers, seed, replace(PORTABLE, few=few))


@pytest.mark.parametrize("system", ["allreduce", "ssp", "gossipgrad", "dlion", "gaia"])
@pytest.mark.parametrize("name", ["slow", "wan-11"])
def test_the_record_of_a_run_is_the_same(system: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for parts in (BEST, PORTABLE):
        monkeypatch.setattr(simulator, "Flows", partial(Flows, parts=parts))
        runs.append(pr.run(Toy(epochs=1, batch_size=4), workers=3, strategy=system, on=pr.Simulator(network=name, record_sends=True)))
    assert runs[0].outcome.events == runs[1].outcome.events
    assert runs[0].summary == runs[1].summary


def test_what_is_under_way_at_the_end_is_given_back() -> None:
    class Token:
        """Counts those that are there."""

        there = 0

        def __init__(self) -> None:
            self.flows: Any = None
            Token.there += 1

        def __del__(self) -> None:
            Token.there -= 1

    for few in (0, 32):
        flows = Flows(networks.load("wan-11"), 40, parts=replace(BEST, few=few))
        for rank in range(40):
            for other in (1, 7, 13):
                token = Token()
                token.flows = flows  # a circle, as in a run
                flows.start(0.0, f"worker/{rank}", f"worker/{(rank + other) % 40}", 10**6, token)
        flows.next_time()
        flows.advance(1e-3)
        del flows, token
        gc.collect()
        assert Token.there == 0


def test_wrong_uses_are_refused() -> None:
    assert NATIVE is not None
    flows = Flows(networks.load("lan"), 2)
    traffic: Any = flows._traffic
    for call in (
        partial(traffic.start, torch, 1, None),
        partial(traffic.hold, 1),
        partial(traffic.lose, 1),
        partial(traffic.run, 1.0),
        partial(traffic.resize, None),
    ):
        with pytest.raises(TypeError):
            call()
    links: Any = (flows._routes.endpoint("worker/0").egress,) * 8
    with pytest.raises(TypeError, match="at most seven links"):
        NATIVE.connection(*[flows._routes.endpoint(f"worker/{rank}") for rank in (0, 1)], links, 1.0, 0.0, 0.0)
    with pytest.raises(TypeError, match="at most seven links"):
        NATIVE.alone(links)


def test_a_flow_alone_has_the_least_capacity_and_half_of_a_link_that_it_takes_twice() -> None:
    assert NATIVE is not None
    for parts in (NATIVE, PORTABLE):
        wide, medium = parts.link(1, 9.0), parts.link(2, 4.0)
        assert [parts.alone(path) for path in ((wide,), (wide, medium), (medium, wide, medium))] == [9.0, 4.0, 2.0]
