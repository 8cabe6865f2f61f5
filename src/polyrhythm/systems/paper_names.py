"""Names of options in papers. Each option has one name over all systems; the paper's own letter or word is accepted for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError

P = ParamSpec("P")
_ATTRIBUTE = "__paper_names__"


def paper_names(**named: str) -> Callable[[Callable[P, Strategy]], Callable[P, Strategy]]:
    """Decorator of a system that also takes options by other names, as in `@paper_names(tau="period")`. Its signature stays."""

    def decorate(system: Callable[P, Strategy]) -> Callable[P, Strategy]:
        name, parameters = system.__name__.replace("_", "-"), list(inspect.signature(system).parameters)

        @wraps(system)
        def by_any_name(*values: P.args, **options: P.kwargs) -> Strategy:
            return system(*values, **canonical(name, options, named, parameters[: len(values)]))

        setattr(by_any_name, _ATTRIBUTE, named)
        return by_any_name

    return decorate


def paper_names_of(system: Callable[..., Strategy]) -> Mapping[str, str]:
    """The other names that the options of a system have, each with the option's own."""
    return getattr(system, _ATTRIBUTE, {})


def also_called(system: Callable[..., Strategy], option: str) -> tuple[str, ...]:
    """The other names of one option of a system, the most usual first."""
    return tuple(other for other, own in paper_names_of(system).items() if own == option)


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
