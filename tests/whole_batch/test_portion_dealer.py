"""What the dealer of portions promises, whatever the workers do and whoever is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.whole_batch.portion_dealer import PortionDeal, PortionDealer


@dataclass
class Bench:
    """Workers that compute one portion in `seconds` each, and servers that confirm a sum `latency` later; some are `lost` at a time."""

    dealer: PortionDealer
    seconds: dict[str, float]
    lost: dict[str, float] = field(default_factory=dict)
    servers: int = 2
    latency: float = 0.01
    now: float = 0.0

    def run(self) -> float:
        """Play one evaluation to its end: when it was over."""
        self.dealer.begin()
        self.sums: dict[tuple[str, int], list[int]] = {}
        self.carried: dict[str, list[int]] = {name: [] for name in self.seconds}
        self.number = dict.fromkeys(self.seconds, 0)
        self.coming = [(0.0, k, name, -1) for k, name in enumerate(self.seconds)]  # when who comes with which portion
        self.confirmations: list[tuple[float, int, tuple[str, int]]] = []
        self.count = len(self.coming)
        losses = sorted(((at, name) for name, at in self.lost.items()), key=lambda each: each[0])
        while not self.dealer.over:
            times = [
                min(self.coming)[:2] if self.coming else (np.inf, 0),
                min(self.confirmations)[:2] if self.confirmations else (np.inf, 0),
            ]
            if losses and losses[0][0] <= min(times)[0]:
                self.now, name = losses.pop(0)
                self.dealer.lose(name)
                self.coming = [each for each in self.coming if each[2] != name]
                self._wake()
                continue
            assert min(times)[0] < np.inf, "nobody has anything to do, and the evaluation is not over"
            if times[1] <= times[0]:
                entry = min(self.confirmations)
                self.confirmations.remove(entry)
                self.now = entry[0]
                self.dealer.confirm(entry[2])
                continue
            come = min(self.coming)
            self.coming.remove(come)
            self.now, _, name, done = come
            deal = self.dealer.ask(name, done, float(done), self.now)
            if deal is not None:
                self._follow(name, done, deal)
            self._wake()
        return self.now

    def _wake(self) -> None:
        for name, deal in self.dealer.wake(self.now):
            self._follow(name, -1, deal)

    def _follow(self, name: str, done: int, deal: PortionDeal) -> None:
        if deal.dropped:
            self.carried[name], self.number[name] = [], self.number[name] + 1
        if deal.accepted:
            self.carried[name].append(done)
        if deal.push:
            key = name, self.number[name]
            self.sums[key] = self.carried[name]
            self.carried[name], self.number[name] = [], self.number[name] + 1
            for k in range(self.servers):
                self.count += 1
                self.confirmations.append((self.now + self.latency * (k + 1), self.count, key))
        self.count += 1
        wait = self.seconds[name] if deal.portion >= 0 else 0.0
        self.coming.append((self.now + wait, self.count, name, deal.portion))


def names(count: int) -> list[str]:
    return [f"worker/{k}" for k in range(count)]


@settings(max_examples=60, deadline=None)
@given(
    portions=st.integers(1, 30),
    copies=st.integers(1, 3),
    seconds=st.lists(st.floats(0.1, 20.0), min_size=1, max_size=7),
    losses=st.lists(st.tuples(st.integers(0, 6), st.floats(0.0, 30.0)), max_size=4),
)
def test_every_portion_is_in_exactly_one_sum_whatever_is_lost(
    portions: int, copies: int, seconds: list[float], losses: list[tuple[int, float]]
) -> None:
    workers = names(len(seconds))
    lost = {workers[k]: at for k, at in losses if 0 < k < len(workers)}  # the first, which coordinates, stays
    bench = Bench(PortionDealer(portions, copies, 2, workers), dict(zip(workers, seconds, strict=True)), lost)
    bench.run()
    counted = sorted(each for key in bench.dealer.contributions for each in bench.sums[key])
    assert counted == list(range(portions))
    assert bench.dealer.loss == sum(range(portions))


@pytest.mark.parametrize(("workers", "portions"), [(8, 64), (8, 200), (3, 10), (16, 100)])
def test_backups_shorten_an_evaluation_with_a_slow_worker_and_cost_little(workers: int, portions: int) -> None:
    seconds = dict.fromkeys(names(workers), 1.0) | {names(workers)[-1]: 4.0}
    with_backups, without = (PortionDealer(portions, copies, 2, names(workers)) for copies in (2, 1))
    for dealer in (with_backups, without):
        Bench(dealer, seconds).run()  # now it knows how fast they are
    ends = [Bench(dealer, seconds).run() for dealer in (with_backups, without)]
    assert ends[0] <= ends[1]
    assert with_backups.dealt <= portions + workers


def test_workers_of_one_speed_compute_nothing_twice() -> None:
    dealer = PortionDealer(32, 2, 1, names(4))
    bench = Bench(dealer, dict.fromkeys(names(4), 1.0), servers=1)
    assert bench.run() < 9.0
    assert dealer.dealt == 32


def test_a_later_answer_to_a_portion_is_not_accepted() -> None:
    dealer = PortionDealer(1, 2, 1, names(2))
    assert dealer.ask("worker/0", -1, 0.0, 0.0) == PortionDeal(portion=0)
    assert dealer.ask("worker/1", -1, 0.0, 0.0) == PortionDeal(portion=0)
    assert dealer.ask("worker/1", 0, 3.0, 1.0) == PortionDeal(accepted=True, push=True)
    assert dealer.ask("worker/0", 0, 3.0, 2.0) is None
    dealer.confirm(("worker/1", 0))
    assert dealer.over
    assert dealer.contributions == [("worker/1", 0)]
