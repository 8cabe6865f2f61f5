"""A published system as the command line shows it and composes it. Commands that train compose their strategy here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints

import msgspec

from polyrhythm.core.protocols.controller import Fixed
from polyrhythm.core.protocols.local import PlainSteps
from polyrhythm.core.records.outcome import OPTIONS
from polyrhythm.core.strategy import Exchange
from polyrhythm.core.strategy.crew_policy import CrewPolicy
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.systems.declaration import also_called, paper_names_of
from polyrhythm.systems.published_verdicts import verdict_on
from polyrhythm.tools.cli.pairs import convert

AXES = ("consistency", "topology", "codec", "merge", "shuffle")
_CITATION = re.compile(r"\(([^()]*\b\d{4}\b[^()]*)\)")


class Option(msgspec.Struct, omit_defaults=True):
    """An option of a system: its type as written, its default (the paper's), and the paper's own names of it."""

    type: str
    default: Any
    also: tuple[str, ...] = ()


class CrewChanges(msgspec.Struct):
    """What follows in a crew that changes: a phrase for each event, and what may be lost at a crash."""

    lost_worker: str
    lost_first_worker: str
    lost_server: str
    joining_worker: str
    redone: str
    may_be_lost: tuple[str, ...]


class Published(msgspec.Struct):
    """One system: what it is, its paper, its pieces written as Python, its options, and the verdicts on the paper's claims.

    Of a system of several levels the pieces are those of the outermost; `exchanges` has all, and is empty for systems of one exchange.
    """

    name: str
    summary: str
    paper: str | None
    consistency: str
    topology: str
    codec: str
    merge: str
    shuffle: str
    exchanges: str
    options: dict[str, Option]
    lost_worker: str
    crew: CrewChanges
    reproduction: str
    description: str


def published(name: str) -> Published:
    """The system `name` as its paper has it."""
    strategy = find(name)
    text = inspect.getdoc(SYSTEMS[name]) or ""
    first = " ".join(text.split("\n\n")[0].split())
    cited = _CITATION.search(first)
    summary = first[: cited.start()].strip() if cited else first
    agreement = strategy.exchange.agreement
    outermost = (agreement.consistency, strategy.exchange.topology, agreement.codec, agreement.merge, strategy.shuffle)
    pieces = dict(zip(AXES, map(short, outermost), strict=True))
    exchanges = _exchanges(strategy)
    options = {
        key: Option(str(parameter.annotation), parameter.default, also_called(SYSTEMS[name], key))
        for key, parameter in inspect.signature(SYSTEMS[name]).parameters.items()
    }
    return Published(
        name,
        summary,
        cited[1] if cited else None,
        **pieces,
        exchanges=exchanges,
        options=options,
        lost_worker=lost_of(strategy),
        crew=changes_of(strategy),
        reproduction=verdict_on(name),
        description=text,
    )


def lost_of(strategy: Strategy) -> str:
    """A phrase for the loss of a worker other than worker 0: whether the run ends or continues."""
    if strategy.workers(2) == 1:
        return "there is no other"
    return "the others continue" if strategy.tolerates_loss else "the run ends and names it"


def changes_of(strategy: Strategy) -> CrewChanges:
    """The strategy's policy in words."""
    policy = CrewPolicy.of(strategy)
    server = "there is none" if policy.server is None else policy.server.value
    join = "when all have come to the same step" if policy.joins else "none can"
    return CrewChanges(policy.worker.value, policy.first.value, server, join, policy.redone, policy.lost)


def _exchanges(strategy: Strategy) -> str:
    """All exchanges of a strategy that has several, or one of several levels."""
    if not strategy.selected and strategy.exchange == Exchange(**{axis: getattr(strategy, axis) for axis in Exchange().pieces}):
        return ""
    own = short(strategy.exchange)
    return "; ".join([*(f"{short(selection)}: {short(exchange)}" for selection, exchange in strategy.selected), own])


def compose(name: str, given: Mapping[str, str]) -> Strategy:
    """The strategy of the system `name` with the options `given` as text."""
    return find(name, **options_typed(name, given))


def options_noted(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """The note in the record of a run that has options of its system; empty without any, and where each axis of a mesh has a system."""
    return {OPTIONS: msgspec.json.encode(options_typed(name, given)).decode()} if given and name in SYSTEMS else {}


def options_typed(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The options `given` as text, by the names that were typed. Raises PolyrhythmErrors for what the system does not have."""
    if name not in SYSTEMS:
        raise unknown("system", name, SYSTEMS)
    kinds = _kinds(name)
    for key in given:
        if not kinds:
            raise CompositionError(f"{name} has no options, but {key}={given[key]} was given: leave it out.")
        if _own(name, key) not in kinds:
            raise unknown(f"option of {name}", key, _accepted(name))
    return {key: convert(name, key, text, kinds[_own(name, key)]) for key, text in given.items()}


def deal(given: Mapping[str, str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The options of each of several systems: NAME.KEY for that one only, KEY for all those that have it.

    An option's own name goes before the names in papers: where one system has the KEY and another only calls an option so, it is for the
    first. Raises UnknownNameError for an option that none of them has.
    """
    single: dict[str, dict[str, str]] = {name: {} for name in names}
    shared: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, text in given.items():
        owner, dot, own = key.rpartition(".")
        if dot:
            if owner not in single:
                raise unknown("system of this comparison", owner, names)
            single[owner][own] = text
            continue
        takers = [name for name in names if key in _kinds(name)] or [name for name in names if key in paper_names_of(SYSTEMS[name])]
        if not takers:
            raise unknown("option of these systems", key, {option for name in names for option in _accepted(name)})
        for name in takers:
            shared[name][key] = text
    settled = {name: {_own(name, key) for key in single[name]} for name in names}
    return {name: single[name] | {key: shared[name][key] for key in shared[name] if _own(name, key) not in settled[name]} for name in names}


def short(piece: Any) -> str:
    """A piece as Python code, without settings that have their defaults: `Bounded(3)`.

    Pieces of which it is composed are shown nevertheless, unless they are left out of its repr.

    Examples:
        >>> from polyrhythm.topology import Server
        >>> short(Server(4))
        'Server(4)'
    """
    if not is_dataclass(piece) or isinstance(piece, type) or not _is_called_with_its_fields(type(piece)):
        return repr(piece)
    parts = []
    skipped = False
    for field in fields(piece):
        value = getattr(piece, field.name)
        plain = value == _default(field) and not (is_dataclass(value) and field.repr)
        if not field.init or value in (PlainSteps(), Fixed()) or plain:
            skipped = True
            continue
        parts.append(f"{field.name}={short(value)}" if skipped or field.kw_only else short(value))
    return f"{type(piece).__name__}({', '.join(parts)})"


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _kinds(name: str) -> dict[str, Any]:
    return {key: kind for key, kind in get_type_hints(SYSTEMS[name]).items() if key != "return"}


def _own(name: str, option: str) -> str:
    """An option's own name, where `option` may be the paper's."""
    return paper_names_of(SYSTEMS[name]).get(option, option)


def _accepted(name: str) -> list[str]:
    """All names of a system's options, the papers' too."""
    return [*_kinds(name), *paper_names_of(SYSTEMS[name])]


def _is_called_with_its_fields(kind: type[Any]) -> bool:
    """True if it takes its fields as arguments, and not any number of values, as some selections do."""
    return all(parameter.kind is not inspect.Parameter.VAR_POSITIONAL for parameter in inspect.signature(kind).parameters.values())
