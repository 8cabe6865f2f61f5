"""The declaration of a published system: its family, what it sends, and the names that its options have in papers.

Each option has one name over all systems; the paper's own letter or word is accepted for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, ParamSpec

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError

P = ParamSpec("P")
_ATTRIBUTE = "__declaration__"


class Family(Enum):
    """The kinds of systems, as README's table has them, in its order."""

    BASELINE = "baseline"
    ALL_REDUCE = "synchronous, by all-reduce"
    LATE = "late by some steps (`onebit` and `climate` have it as an option)"
    SERVERS = "through servers or a store"
    FEW_BITS = "few bits an element"
    FEW_ELEMENTS = "few elements, or low rank"
    LOCAL_STEPS = "local steps"
    FEDERATED = "federated, and local steps without lockstep"
    ASYNCHRONOUS_SERVERS = "asynchronous servers"
    ADAPTIVE_PEERS = "peers that adapt to their links"
    ASYNCHRONOUS_PEERS = "asynchronous peers, shared memory"
    GOSSIP = "gossip, and groups of workers"
    GRAPH = "a graph of workers"


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration that `@system` attaches.

    `sends` is what all workers and servers send in a step, in the letters of docs/systems.md.
    """

    family: Family
    sends: str
    paper_names: Mapping[str, str]


def system(family: Family, sends: str, **paper_names: str) -> Callable[[Callable[P, Strategy]], Callable[P, Strategy]]:
    """Decorator of a published system; options may be given by their `paper_names` too, as in `tau="period"`. The signature stays."""

    def decorate(function: Callable[P, Strategy]) -> Callable[P, Strategy]:
        name, parameters = name_of(function), list(inspect.signature(function).parameters)
        if unknown := set(paper_names.values()) - set(parameters):
            raise TypeError(f"@system of {name} names {', '.join(sorted(unknown))}, and its options are {', '.join(parameters) or 'none'}.")

        @wraps(function)
        def by_any_name(*values: P.args, **options: P.kwargs) -> Strategy:
            return function(*values, **canonical(name, options, paper_names, parameters[: len(values)]))

        setattr(by_any_name, _ATTRIBUTE, Declaration(family, sends, paper_names))
        return by_any_name

    return decorate


def declared(package: Mapping[str, Any]) -> dict[str, Callable[..., Strategy]]:
    """The systems that a package imports, by name, in the order of the imports."""
    return {name_of(value): value for value in package.values() if hasattr(value, _ATTRIBUTE)}


def name_of(function: Callable[..., Strategy]) -> str:
    """The name of a system, as commands take it."""
    return function.__name__.replace("_", "-")


def declaration_of(function: Callable[..., Strategy]) -> Declaration:
    """The declaration of a published system."""
    declaration: Declaration = getattr(function, _ATTRIBUTE)
    return declaration


def paper_names_of(function: Callable[..., Strategy]) -> Mapping[str, str]:
    """The other names that the options of a system have, each with the option's own."""
    return declaration_of(function).paper_names


def also_called(function: Callable[..., Strategy], option: str) -> tuple[str, ...]:
    """The other names of one option of a system, the most usual first."""
    return tuple(other for other, own in paper_names_of(function).items() if own == option)


def canonical(name: str, options: Mapping[str, Any], named: Mapping[str, str], given: Collection[str] = ()) -> dict[str, Any]:
    """The options of the system `name` by their own names; `given` have values already.

    Raises CompositionError for an option that was given by two names.
    """
    found: dict[str, Any] = {}
    spelled = {own: own for own in given}
    for option, value in options.items():
        own = named.get(option, option)
        if own in spelled and option != spelled[own]:
            raise CompositionError(f"{name} was given {own} twice, as {spelled[own]} and as {option}: leave out one of them.")
        spelled[own] = option
        found[own] = value
    return found
