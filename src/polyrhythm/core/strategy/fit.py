"""Checks that pieces fit together; where they do not, finds the changes that would make them fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from polyrhythm.core.catalogue import CHOICES
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.merge import keeps_rates
from polyrhythm.core.protocols.traits import DIFFERENCES, GRADIENTS, Pattern, Payload

Pieces = Mapping[str, Any]
"""A piece for each of the five axes that must fit."""

_TAKERS = {ControlledSetting.LOCAL_STEPS: "consistency", ControlledSetting.TEACHER: "topology"}
"""The axis of the piece that has a setting, if it is not the codec."""
_SHOWN = 4
_MANY = 2**20


def payloads(pieces: Pieces) -> dict[str, frozenset[Payload]]:
    """The payloads that each piece can send or merge, by axis."""
    sent = {axis: pieces[axis].traits.payloads for axis in ("consistency", "topology", "merge", "codec", "local")}
    if pieces["topology"].traits.differences and Payload.UPDATE in sent["codec"]:
        sent["codec"] |= {Payload.WEIGHTS}  # it is given differences of them
    return sent


def payload(pieces: Pieces) -> Payload | None:
    """The first payload that all pieces have in common."""
    common = frozenset.intersection(*payloads(pieces).values())
    return next((each for each in Payload if each in common), None) if common else None


def conflict(pieces: Pieces) -> str | None:
    """The reason why the pieces cannot work together, as half a sentence; None where they can."""
    pattern = pieces["topology"].traits.pattern
    for axis in ("consistency", "codec", "merge"):
        if pattern not in pieces[axis].traits.patterns:
            return (
                f"{_both(pieces, 'topology', axis)} do not fit: over {_name(pieces['topology'])} workers communicate {pattern.value}, "
                f"and {_name(pieces[axis])} can be used only {_list(pieces[axis].traits.patterns)}"
            )
    if pieces["local"].traits.averages and pattern is not Pattern.COLLECTIVE:
        return (
            f"{_both(pieces, 'topology', 'local')} do not fit: {_name(pieces['local'])} averages over workers that act together, and over "
            f"{_name(pieces['topology'])} they communicate {pattern.value}"
        )
    if payload(pieces) is None:
        return _nothing_in_common(pieces)
    if found := _untaken(pieces):
        return found
    if pieces["local"].traits.needs_mean and (found := _no_mean(pieces)):
        return found
    if found := _not_mixed(pieces) or _kept_twice(pieces):
        return found
    if payload(pieces) is Payload.WEIGHTS and pattern is Pattern.COLLECTIVE:
        return _sum_of_weights(pieces)
    return _half_an_exchange(pieces) if payload(pieces) is Payload.WEIGHTS and pattern is Pattern.SERVED else None


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


def _no_mean(pieces: Pieces) -> str | None:
    """The conflict of a local rule that needs the mean of all workers' changes with a piece that gives something else, or later."""
    topology, rule, codec = (pieces[axis].traits for axis in ("topology", "consistency", "codec"))
    problems = {
        "merge": "makes something else of it" if not keeps_rates(pieces["merge"], 2) else "",
        "topology": "brings another combination" if topology.pattern is Pattern.COMBINED else "brings it later" if topology.late else "",
        "consistency": "merges what some have done" if rule.order_matters or pieces["consistency"].conditions.quorum(_MANY) < _MANY else "",
        "codec": "loses a part of it" if codec.lossy else "sends something else" if codec.transforms else "",
    }
    for axis, problem in problems.items():
        if problem:
            needs = f"{_name(pieces['local'])} needs the mean of what all workers did since the last exchange"
            return f"{_both(pieces, axis, 'local')} do not fit: {needs}, and {_name(pieces[axis])} {problem}"
    return None


def _not_mixed(pieces: Pieces) -> str | None:
    """The conflict of means that a topology makes, or of other vectors that a local rule sends, with pieces that do not mix them."""
    topology, rule = pieces["topology"].traits, pieces["local"].hooks.mixing
    averages = payload(pieces) is Payload.WEIGHTS and pieces["merge"].traits.averages
    if topology.averages and not averages:
        brings = f"{_name(pieces['topology'])} brings means of weights, and {_name(pieces['merge'])} makes something else of them"
        return f"{_both(pieces, 'topology', 'merge')} do not fit: {brings}"
    if rule is None:
        return None
    needs, axis = f"{_name(pieces['local'])} needs vectors that neighbours mix", ""
    if topology.pattern is not Pattern.NEIGHBOURS:
        axis, problem = "topology", f"over {_name(pieces['topology'])} workers communicate {topology.pattern.value}"
    elif pieces["consistency"].traits.order_matters:
        axis, problem = "consistency", f"under {_name(pieces['consistency'])} they come at any time"
    elif not averages:
        axis, problem = "merge", f"{_name(pieces['merge'])} makes something else of them"
    elif rule.least_eigenvalue is not None and topology.least_eigenvalue is None:
        axis, problem = "topology", f"{_name(pieces['topology'])} does not always do so with one symmetric matrix"
    return f"{_both(pieces, axis, 'local')} do not fit: {needs}, and {problem}" if axis else None


def _kept_twice(pieces: Pieces) -> str | None:
    """The conflict of a codec that keeps what it does not send with a topology that sends it again in the next difference."""
    codec = pieces["codec"].traits
    if not pieces["topology"].traits.differences or not (codec.keeps or codec.transforms):
        return None
    given = f"{_name(pieces['topology'])} sends what receivers lack, in which all is that was not sent before"
    return f"{_both(pieces, 'topology', 'codec')} do not fit: {given}, and {_name(pieces['codec'])} would add it once more"


def _sum_of_weights(pieces: Pieces) -> str | None:
    """The conflict of a collective, which gives all workers one sum of their weights, with a merge of pairs."""
    if not pieces["merge"].traits.payloads & DIFFERENCES:
        return (
            f"{_both(pieces, 'topology', 'merge')} do not fit: {_name(pieces['topology'])} brings the sum of all workers' weights, and "
            f"{_name(pieces['merge'])} mixes the weights of each"
        )
    return None


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
        if _speak_alike(changed) and conflict(changed) is None:
            yield changed


def _kind(axis: str, piece: Any) -> tuple[Any, ...]:
    """All properties by which `conflict` judges a piece."""
    match axis:
        case "consistency":
            when = piece.conditions
            quorum = when.quorum(_MANY)
            return piece.traits, quorum > 1, quorum < _MANY, when.must_read(1, math.inf), when.may_proceed(1, 0)
        case "merge":
            return piece.traits, keeps_rates(piece, 2)
        case "local":
            mixing = piece.hooks.mixing
            return piece.traits, None if mixing is None else mixing.least_eigenvalue
        case _:
            return (piece.traits,)


def _speak_alike(pieces: Pieces) -> bool:
    """True if pieces agree on a pattern and a payload: a quick check in which most conflicts already show."""
    pattern = pieces["topology"].traits.pattern
    return all(pattern in pieces[axis].traits.patterns for axis in ("consistency", "codec", "merge")) and payload(pieces) is not None


def _either(names: Sequence[str]) -> str:
    shown = [*names[:_SHOWN], "another"] if len(names) > _SHOWN else list(names)
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _both(pieces: Pieces, one: str, other: str) -> str:
    return f"{pieces[one]!r} and {pieces[other]!r}"


def _name(piece: Any) -> str:
    return type(piece).__name__


def _list(agreement: frozenset[Payload] | frozenset[Pattern]) -> str:
    plain = GRADIENTS - {Payload.GRADIENT} if Payload.GRADIENT in agreement else frozenset()
    return " or ".join(term.value for term in (*Payload, *Pattern) if term in agreement and term not in plain) or "in no way"
