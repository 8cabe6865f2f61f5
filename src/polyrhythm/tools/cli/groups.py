"""Groups of options that several commands have: each is declared once, as a dataclass whose fields are options.

A command takes a group as one parameter, below `@grouped`; Typer sees the fields in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from polyrhythm.tools.cli.options import (
    Checkpoint,
    DeviceName,
    Engine,
    Every,
    Fast,
    Fault,
    Faults,
    Grace,
    Json,
    Keep,
    Machines,
    Mtbf,
    NetworkName,
    On,
    Options,
    Override,
    Quiet,
    Resume,
    Settings,
    Shares,
    Timeout,
    repeated,
)

if TYPE_CHECKING:
    from polyrhythm.core.checkpoints.request import Checkpoints

Result = TypeVar("Result")


def grouped(command: Callable[..., Result]) -> Callable[..., Result]:
    """`command` with the fields of each parameter that is a dataclass as options in place of that parameter."""
    groups: dict[str, type[Any]] = {}
    options: list[Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            own = get_type_hints(kind, include_extras=True)
            options += [
                Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=own[each.name]) for each in fields(kind)
            ]
        else:
            options.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def flat(**given: Any) -> Result:
        made = {name: kind(**{each.name: given.pop(each.name) for each in fields(kind)}) for name, kind in groups.items()}
        return command(**given, **made)

    del flat.__wrapped__
    flat.__signature__ = Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in options}
    return flat


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The runtime of a run: which one, and what applies to one of them only; None for what was not given."""

    on: On = None
    network: NetworkName = None
    device: DeviceName = None
    timeout: Timeout = None
    engine: Engine = None
    fault: Fault = None
    faults: Faults = None
    fast: Fast = False
    machines: Machines = None
    shares: Shares = None

    def arguments(self) -> list[str]:
        """The options as arguments of a command."""
        named = [("--on", self.on), ("--network", self.network), ("--device", self.device), ("--machines", self.machines)]
        named += [("--shares", self.shares), ("--timeout", None if self.timeout is None else f"{self.timeout:g}")]
        named += [("--faults", None if self.faults is None else str(self.faults))]
        single = [part for flag, value in named if value is not None for part in (flag, value)]
        single += ["--fast"] * self.fast
        return [*single, *repeated("--engine", self.engine), *repeated("--fault", self.fault)]


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """The checkpoints that a run writes, and the one from which it continues."""

    checkpoint: Checkpoint = None
    every: Every = None
    keep: Keep = 2
    grace: Grace = 20.0
    resume: Resume = False
    override: Override = None
    mtbf: Mtbf = None

    def wanted(self) -> Checkpoints:
        """The options as a value for `run` and `join`. Raises CompositionError for what cannot be."""
        from polyrhythm.core.checkpoints.request import Checkpoints

        return Checkpoints(self.checkpoint, self.every, self.keep, self.resume, self.grace, self.override or [], self.mtbf)

    def arguments(self) -> list[str]:
        """The options that were given, as arguments of a command, without --resume."""
        usual = CheckpointOptions()
        given = [(f"--{name}", getattr(self, name), getattr(usual, name)) for name in ("checkpoint", "every", "mtbf", "keep", "grace")]
        named = [part for flag, value, default in given if value != default for part in (flag, str(value))]
        return [*named, *repeated("--override", self.override)]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Settings of the JOB and options of the system."""

    settings: Settings = None
    options: Options = None

    def arguments(self) -> list[str]:
        """The options as arguments of a command."""
        return [*repeated("--set", self.settings), *repeated("--option", self.options)]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """The form in which a command prints."""

    as_json: Json = False
    quiet: Quiet = False

    @property
    def watched(self) -> bool:
        """True if progress is shown."""
        return not (self.as_json or self.quiet)
