"""Checks that pieces fit together; where they do not, finds the changes that would make them fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from polyrhythm.core.catalogue import CHOICES
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.merge import keeps_rates
from polyrhythm.core.protocols.traits import GRADIENTS, Payload

Pieces = Mapping[str, Any]
"""A piece for each of the axes that must fit."""

_ORDER = tuple(Capability)
_AXES = ("consistency", "topology", "merge", "codec", "local")

_TAKERS = {ControlledSetting.LOCAL_STEPS: "consistency", ControlledSetting.TEACHER: "topology"}
"""The axis of the piece that has a setting, if it is not the codec."""
_MANY = 2**20


def payloads(pieces: Pieces) -> dict[str, frozenset[Payload]]:
    """The payloads that each piece can send or merge, by axis."""
    sent = {axis: pieces[axis].traits.payloads for axis in _AXES}
    if Capability.DIFFERENCES in pieces["topology"].traits.provides and Payload.UPDATE in sent["codec"]:
        sent["codec"] |= {Payload.WEIGHTS}  # it is given differences of them
    return sent


def payload(pieces: Pieces) -> Payload | None:
    """The first payload that all pieces have in common."""
    common = frozenset.intersection(*payloads(pieces).values())
    return next((each for each in Payload if each in common), None) if common else None


def conflict(pieces: Pieces) -> str | None:
    """The reason why the pieces cannot work together, as half a sentence; None where they can."""
    for needy, other, need in _unmet(pieces):
        having = list(dict.fromkeys(_name(each) for each in CHOICES["topology"] if need in each.traits.provides))
        over, where = ("over ", f", as over {_either(having, 2)}" if having else "") if other == "topology" else ("", "")
        problem = f"{_name(pieces[needy])} needs {need.value}{where}, and {over}{_name(pieces[other])} {_lack(pieces, other, need)}"
        return f"{_both(pieces, other, needy)} do not fit: {problem}"
    agreed = payload(pieces)
    if agreed is None:
        return _nothing_in_common(pieces)
    mixed_twice = agreed is Payload.WEIGHTS and Capability.SERVER in pieces["topology"].traits.provides
    return _untaken(pieces) or (_half_an_exchange(pieces) if mixed_twice else None)


def _unmet(pieces: Pieces) -> Iterator[tuple[str, str, Capability]]:
    """Requirements of one piece that it cannot have with another: the axes of the two, and the capability."""
    for needy in ("consistency", "codec", "merge", "local", "topology"):
        for need in sorted(pieces[needy].traits.requires, key=_ORDER.index):
            for other in ("topology", "merge", "consistency", "codec"):
                if other != needy and _lack(pieces, other, need):
                    yield needy, other, need


def _lack(pieces: Pieces, axis: str, need: Capability) -> str:
    """Why others cannot have what they need with the piece on `axis`, as the end of a sentence; empty where they can."""
    if axis == "merge" and need is Capability.MEAN:
        return "" if keeps_rates(pieces[axis], 2) else "makes something else of it"
    reason: str = pieces[axis].traits.lacks(need)
    return reason


def _untaken(pieces: Pieces) -> str | None:
    """The conflict over a setting that the controller sets and no piece has; batches are the shuffle's."""
    taken = pieces["codec"].traits.takes | pieces["consistency"].traits.takes | pieces["topology"].traits.takes
    untaken = pieces["controller"].traits.sets - taken - {ControlledSetting.BATCH}
    if not untaken:
        return None
    axis = _TAKERS.get(min(untaken, key=lambda setting: setting.value), "codec")
    sets = f"{_name(pieces['controller'])} sets {' and '.join(sorted(setting.value for setting in untaken))}"
    return f"{_both(pieces, 'controller', axis)} do not fit: {sets}, which {_name(pieces[axis])} does not have"


def _nothing_in_common(pieces: Pieces) -> str:
    sent = payloads(pieces)
    for one, other in combinations(sent, 2):
        if not sent[one] & sent[other]:
            return (
                f"{_both(pieces, one, other)} do not fit: {_name(pieces[one])} is for {_list(sent[one])}, "
                f"and {_name(pieces[other])} for {_list(sent[other])}"
            )
    return f"{', '.join(repr(pieces[axis]) for axis in sent)} do not fit: there is no payload that all of them have"


def _half_an_exchange(pieces: Pieces) -> str | None:
    """The conflict of weights that are mixed at both ends with a worker that does not wait for the server's half every time."""
    rule = pieces["consistency"]
    when = rule.conditions
    if not rule.traits.waits or not when.must_read(1, math.inf) or (when.quorum(_MANY) > 1 and when.may_proceed(1, 0)):
        return (
            f"{_both(pieces, 'consistency', 'merge')} do not fit: {_name(pieces['merge'])} mixes weights at both ends of every exchange, "
            f"and under {_name(rule)} a worker may continue before the server has mixed"
        )
    return None


def remedy(pieces: Pieces) -> str:
    """The fewest changes after which nothing is in conflict, as a sentence."""
    for changes in range(1, len(CHOICES) + 1):
        ways = [way for axes in combinations(CHOICES, changes) if (way := _way(pieces, axes))]
        if ways:
            return "I" + "; or ".join(ways)[1:] + "."  # every way begins with "instead"
    raise AssertionError("some composition of the members fits")


def _way(pieces: Pieces, axes: Sequence[str]) -> str:
    """Pieces to use instead of those on `axes`: all that would fit for a single axis, one example for several."""
    fitting = _fitting(pieces, axes)
    if len(axes) == 1:
        names = list(dict.fromkeys(_name(changed[axes[0]]) for changed in fitting))
        return f"instead of {_name(pieces[axes[0]])} use {_either(names)}" if names else ""
    first = next(fitting, None)
    return " and ".join(f"instead of {_name(pieces[axis])} use {_name(first[axis])}" for axis in axes) if first is not None else ""


def _fitting(pieces: Pieces, axes: Sequence[str]) -> Iterator[Pieces]:
    """The changed pieces that fit: of a single axis all; of several the first member of each kind, because kinds fit as a whole."""
    others = {axis: [member for member in CHOICES[axis] if _name(member) != _name(pieces[axis])] for axis in axes}
    if len(axes) > 1:
        others = {
            axis: list({_kind(axis, member): member for member in reversed(members)}.values())[::-1] for axis, members in others.items()
        }
    for choice in product(*others.values()):
        changed = {**pieces, **dict(zip(axes, choice, strict=True))}
        if not any(_unmet(changed)) and conflict(changed) is None:
            yield changed


def _kind(axis: str, piece: Any) -> tuple[Any, ...]:
    """All properties by which `conflict` judges a piece."""
    if axis == "consistency":
        when = piece.conditions
        return piece.traits, when.quorum(_MANY) > 1, when.must_read(1, math.inf), when.may_proceed(1, 0)
    return piece.traits, axis == "merge" and keeps_rates(piece, 2)


def _either(names: Sequence[str], most: int = 4) -> str:
    shown = [*names[:most], "another"] if len(names) > most else list(names)
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _both(pieces: Pieces, one: str, other: str) -> str:
    return f"{pieces[one]!r} and {pieces[other]!r}"


def _name(piece: Any) -> str:
    return type(piece).__name__


def _list(agreement: frozenset[Payload]) -> str:
    plain = GRADIENTS - {Payload.GRADIENT} if Payload.GRADIENT in agreement else frozenset()
    return " or ".join(term.value for term in Payload if term in agreement and term not in plain) or "in no way"
