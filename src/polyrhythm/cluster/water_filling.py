"""Fair shares: what each of several claims gets of a whole number of devices or cores (max-min fairness with weights)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """One claim: it wants `demand`, has `deserved` before all others, gets at most `limit`, and what is left by `weight`."""

    name: str
    demand: int
    deserved: int = 0
    weight: int = 1
    limit: int | None = None

    @property
    def most(self) -> int:
        """The most that it can use."""
        return self.demand if self.limit is None else min(self.demand, self.limit)


def water_fill(capacity: int, claims: Sequence[ShareClaim]) -> Mapping[str, int]:
    """The share of each claim of `capacity`, whatever their order.

    First each gets what it deserves, as far as it can use it. The rest is divided by weight in rounds; what a claim cannot use in a
    round is divided again in the next, computed before anything of that round is given, so that the order of claims does not matter.
    Fractions of one are given by largest remainder, ties by name. If the deserved shares exceed the capacity, they are divided so.

    Examples:
        >>> dict(water_fill(10, [ShareClaim("a", demand=2), ShareClaim("b", demand=9), ShareClaim("c", demand=9)]))
        {'a': 2, 'b': 4, 'c': 4}
    """
    ordered = sorted(claims, key=lambda claim: claim.name)
    first = {claim.name: min(claim.deserved, claim.most) for claim in ordered}
    if sum(first.values()) > capacity:
        exact = _rounds(Fraction(capacity), {claim.name: (Fraction(first[claim.name]), claim.deserved) for claim in ordered})
        return _whole(exact, capacity, first)
    left = {claim.name: (Fraction(claim.most - first[claim.name]), claim.weight) for claim in ordered}
    spread = _rounds(Fraction(capacity - sum(first.values())), left)
    exact = {name: first[name] + spread[name] for name in first}
    return _whole(exact, capacity, {claim.name: claim.most for claim in ordered})


def _rounds(capacity: Fraction, wanted: Mapping[str, tuple[Fraction, int]]) -> dict[str, Fraction]:
    """Shares by weight, at most what is wanted, of what is left after each round."""
    given = {name: Fraction(0) for name in wanted}
    while capacity > 0:
        open_ = [name for name, (most, weight) in wanted.items() if given[name] < most and weight > 0]
        if not open_:
            break
        total = sum(wanted[name][1] for name in open_)
        part = {name: min(capacity * wanted[name][1] / total, wanted[name][0] - given[name]) for name in open_}
        for name in open_:
            given[name] += part[name]
        capacity -= sum(part.values())
        if all(given[name] < wanted[name][0] for name in open_):
            break  # nobody was full: everything is given
    return given


def _whole(exact: Mapping[str, Fraction], capacity: int, most: Mapping[str, int]) -> dict[str, int]:
    """Whole numbers next to `exact`: the largest remainders get one more, as far as there is any."""
    shares = {name: math.floor(part) for name, part in exact.items()}
    left = min(capacity, round(sum(exact.values()))) - sum(shares.values())
    for name in sorted(exact, key=lambda name: (shares[name] - exact[name], name)):
        if left > 0 and shares[name] < most[name] and exact[name] > shares[name]:
            shares[name] += 1
            left -= 1
    return shares
