"""Fair shares: against the exact solution, and whatever the order of claims."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.cluster.queues import Queue, Quota, fair_shares
from polyrhythm.cluster.water_filling import ShareClaim, water_fill

CLAIMS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 4), st.none() | st.integers(12, 30)), min_size=1, max_size=7
).map(lambda rows: [ShareClaim(f"q{number}", *row) for number, row in enumerate(rows)])


def exact(capacity: int, claims: list[ShareClaim]) -> dict[str, Fraction]:
    """The max-min fair division, by bisection of the water level; deserved shares first."""
    base = {claim.name: Fraction(min(claim.deserved, claim.most)) for claim in claims}
    if sum(base.values()) > capacity:
        weights, most, base = {c.name: c.deserved for c in claims}, dict(base), {c.name: Fraction(0) for c in claims}
    else:
        weights, most = {c.name: c.weight for c in claims}, {c.name: Fraction(c.most) for c in claims}
    left = Fraction(capacity) - sum(base.values())
    wanted = {name: most[name] - base[name] for name in base}
    steps = sorted({Fraction(wanted[name], weights[name]) for name in base if weights[name]})
    level = next((step for step in steps if poured(step, wanted, weights) >= left), None)
    if level is None:
        return {name: base[name] + (wanted[name] if weights[name] else 0) for name in base}
    below = max((step for step in steps if step < level), default=Fraction(0))
    flowing = sum(weights[name] for name in base if weights[name] and Fraction(wanted[name], weights[name]) > below)
    height = below + ((left - poured(below, wanted, weights)) / flowing if flowing else 0)
    return {name: base[name] + (min(wanted[name], height * weights[name]) if weights[name] else 0) for name in base}


def poured(height: Fraction, wanted: dict[str, Fraction], weights: dict[str, int]) -> Fraction:
    return sum((min(wanted[name], height * weights[name]) for name in wanted if weights[name]), Fraction(0))


@given(st.integers(0, 100), CLAIMS)
@settings(max_examples=300, deadline=None)
def test_shares_are_within_one_of_the_exact_division(capacity: int, claims: list[ShareClaim]) -> None:
    found, wanted = water_fill(capacity, claims), exact(capacity, claims)
    assert all(abs(found[name] - wanted[name]) < 1 for name in wanted)
    assert sum(found.values()) <= capacity
    assert all(found[claim.name] <= claim.most for claim in claims)


@given(st.integers(0, 100), CLAIMS, st.randoms())
@settings(max_examples=150, deadline=None)
def test_the_order_of_claims_does_not_matter(capacity: int, claims: list[ShareClaim], random: Random) -> None:
    shuffled = list(claims)
    random.shuffle(shuffled)
    assert water_fill(capacity, shuffled) == water_fill(capacity, claims)


def a_tree(random: Random) -> tuple[list[Queue], dict[str, float]]:
    queues: list[Queue] = []
    for number in range(random.randint(1, 9)):
        parent = random.choice([None, *[queue.name for queue in queues]])
        quota = Quota(random.randint(0, 8), random.choice((None, None, random.randint(8, 30))), random.randint(0, 3))
        queues.append(Queue(f"q{number}", parent, devices=quota))
    leaves = [queue.name for queue in queues if all(other.parent != queue.name for other in queues)]
    return queues, {name: random.choice((0, 3.5, 12, 40)) for name in leaves}


def is_divided(seed: int) -> None:
    """Shares of a random tree: in any order, and within one of the exact division of what the parent has."""
    random = Random(seed)
    queues, demand = a_tree(random)
    shares = fair_shares(queues, "devices", 32, demand)
    shuffled = random.sample(queues, len(queues))
    assert fair_shares(shuffled, "devices", 32, demand) == shares
    for parent in (None, *queues):
        children = [queue for queue in queues if queue.parent == (parent.name if parent else None)]
        amount = shares[parent.name] if parent else 32
        assert sum(shares[queue.name] for queue in children) <= amount
        claims = [ShareClaim(q.name, wanted(q, queues, demand), q.devices.deserved, q.devices.weight, q.devices.limit) for q in children]
        for name, share in exact(amount, claims).items() if claims else ():
            assert abs(shares[name] - share) < 1


def wanted(queue: Queue, queues: list[Queue], demand: dict[str, float]) -> int:
    """What a queue and those below it want, in whole devices, each up to its limit."""
    total = ceil(demand.get(queue.name, 0)) + sum(wanted(child, queues, demand) for child in queues if child.parent == queue.name)
    return total if queue.devices.limit is None else min(total, queue.devices.limit)


@given(st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_trees_are_divided_exactly_and_alike_in_any_order(seed: int) -> None:
    is_divided(seed)


@pytest.mark.long
def test_ten_thousand_trees_are_divided_exactly_and_alike_in_any_order() -> None:
    for seed in range(10_000):
        is_divided(seed)
