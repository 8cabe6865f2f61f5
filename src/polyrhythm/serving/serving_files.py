"""The MODELS and SITE files, in TOML or JSON, and profiles and plans, in JSON.

A MODELS file has what is served, and what is asked for:

    [[models]]
    name = "digits"
    torch = "digits.py:make"        # a function that returns a module; or "package.module:make"
    input = [1, 28, 28]             # of one request; dtype = "float32"
    [[models]]
    name = "words"
    onnx = "words.onnx"             # the file says what its input is
    [[models]]
    name = "large"
    emulated = true                 # takes the time of its profile, and returns its input
    input = [16]
    [[families]]                    # models of PyTorch whose first layers are the same, served as one where that pays
    name = "photos"
    variants = ["cats", "dogs"]     # profile them with serve profile: "photos/prefix", "photos/cats", "photos/dogs"
    [[sessions]]
    name = "pages"
    model = "digits"
    slo = "100 ms"
    rate = 40                       # requests per second
    [[queries]]                     # several models within one objective; for serve plan and serve simulate
    name = "street"
    slo = "200 ms"
    rate = 10
    nodes = [{name = "detect", model = "digits"}, {name = "read", model = "words", after = ["detect"], fan_out = 2}]

A SITE file has the machines; `rules` and `control` have the fields of `PlanningRules` and `ControlRules`:

    [[machines]]
    name = "box"
    kind = "laptop"                 # selects profiles
    memory = "8 GB"
    count = 2                       # box-1, box-2
    ray = {num_gpus = 1, label_selector = {rack = "left"}}      # where Ray places it; default: where the resource "machine:box-1" is
    [rules]
    network = "10 ms"
    [control]
    epoch = "30 s"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from polyrhythm.core import units
from polyrhythm.core.atomic import replacing
from polyrhythm.core.typed_files import read_typed
from polyrhythm.errors import CompositionError, did_you_mean, nearest, unknown
from polyrhythm.serving.control import ControlRules
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.latency_split import OptimalSplit
from polyrhythm.serving.prefix_family import PrefixFamily
from polyrhythm.serving.query import Query, QueryNode
from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession

Written = TypeVar("Written")


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model of a MODELS file: exactly one of `torch`, `onnx` and `emulated` says what it is."""

    name: str
    torch: str | None = None
    onnx: str | None = None
    emulated: bool = False
    input: list[int] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1


class FamilyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family of a MODELS file: models that share their first layers."""

    name: str
    variants: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """The name of the profile of the shared layers."""
        return f"{self.name}/prefix"

    def suffix(self, variant: str) -> str:
        """The name of the profile of what a variant has besides them."""
        return f"{self.name}/{variant}"

    def family(self, profiles: Sequence[LatencyProfile]) -> PrefixFamily:
        """It with its profiles. Raises CompositionError where one was not measured."""
        variants = {self.suffix(each): each for each in self.variants}
        prefixes = tuple(replace(each, model=self.name) for each in profiles if each.model == self.prefix)
        suffixes = tuple(replace(each, model=variants[each.model]) for each in profiles if each.model in variants)
        if not prefixes:
            raise CompositionError(f"The family {self.name!r} has no profile {self.prefix!r}: measure it with polyrhythm serve profile.")
        return PrefixFamily(self.name, self.variants, prefixes, suffixes)


class SessionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session of a MODELS file."""

    name: str
    model: str
    slo: str | float
    rate: float


class QueryNodeEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node of a query of a MODELS file."""

    name: str
    model: str
    after: tuple[str, ...] = ()
    fan_out: float = 1.0


class QueryEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query of a MODELS file."""

    name: str
    slo: str | float
    rate: float
    nodes: list[QueryNodeEntry]

    def query(self) -> Query:
        """It as a value."""
        nodes = tuple(QueryNode(node.name, node.model, node.after, node.fan_out) for node in self.nodes)
        return Query(self.name, nodes, units.duration(self.slo), self.rate)


class ModelsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models and sessions of a MODELS file."""

    models: list[ModelEntry]
    sessions: list[SessionEntry] = []
    queries: list[QueryEntry] = []
    families: list[FamilyEntry] = []

    def prefix_families(self, profiles: Sequence[LatencyProfile]) -> tuple[PrefixFamily, ...]:
        """The families with their profiles."""
        return tuple(each.family(profiles) for each in self.families)

    def served(self) -> tuple[ServingSession, ...]:
        """The sessions as `plan` takes them. Raises CompositionError where there are queries too, which a server does not carry out."""
        if self.queries:
            raise CompositionError(
                f"The query {self.queries[0].name!r} runs several models, which serve run does not: give its parts as sessions, as "
                "serve plan lists them."
            )
        return self.divided((), PlanningRules())

    def divided(self, profiles: Sequence[LatencyProfile], rules: PlanningRules) -> tuple[ServingSession, ...]:
        """The sessions, and those of the nodes of each query, among which its time is divided."""
        parts = [part for each in self.queries for part in OptimalSplit().sessions(each.query(), profiles, rules)]
        return (*self._own(), *parts)

    def _own(self) -> tuple[ServingSession, ...]:
        return tuple(ServingSession(one.name, one.model, units.duration(one.slo), one.rate) for one in self.sessions)


class MachineEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine of a SITE file, or `count` equal ones."""

    name: str
    kind: str
    memory: str | float
    cost: float = 1.0
    count: int = 1
    ray: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The names of its machines."""
        return [self.name] if self.count == 1 else [f"{self.name}-{index + 1}" for index in range(self.count)]


class ServingSiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machines and rules of a SITE file."""

    machines: list[MachineEntry]
    rules: dict[str, str | float] = {}
    control: dict[str, str | float] = {}

    def served(self) -> tuple[ServingMachine, ...]:
        """The machines as `plan` takes them."""
        return tuple(
            ServingMachine(name, each.kind, round(units.size(each.memory)), each.cost) for each in self.machines for name in each.names
        )

    def ray(self) -> dict[str, Mapping[str, Any]]:
        """The options of Ray by machine, of those that have some."""
        return {name: each.ray for each in self.machines for name in each.names if each.ray}

    def planning(self) -> PlanningRules:
        """The rules of planning."""
        return _rules(PlanningRules, self.rules, "rules", ("network", "jitter", "entrance"))

    def controlling(self) -> ControlRules:
        """The rules of the control loop."""
        return _rules(ControlRules, self.control, "control", ("beacon", "epoch", "shortest"))


def read_models(path: Path) -> ModelsFile:
    """The MODELS file at `path`. Raises CompositionError with the place of a mistake."""
    found = read_typed(
        path, ModelsFile, "MODELS file", "It has models, each with a name, and sessions, each with a name, a model, an slo and a rate."
    )
    for each in found.models:
        kinds = [kind for kind, given in (("torch", each.torch), ("onnx", each.onnx), ("emulated", each.emulated)) if given]
        if len(kinds) != 1:
            raise CompositionError(f"The model {each.name!r} of {path} has {kinds or 'no source'}: give one of torch, onnx and emulated.")
        if each.input is None and not each.onnx:
            raise CompositionError(f"The model {each.name!r} of {path} has no input: give the shape of one request, such as [1, 28, 28].")
    names = {each.name for each in found.models}
    nodes = [SessionEntry(f"{query.name}/{node.name}", node.model, query.slo, 0.0) for query in found.queries for node in query.nodes]
    for one in (*found.sessions, *nodes):
        if one.model not in names:
            meant = did_you_mean(nearest(one.model, names)) or f"The models are {', '.join(sorted(names))}."
            raise CompositionError(f"The session {one.name!r} of {path} asks for {one.model!r}, which is none of its models. {meant}")
    _refuse_families(found, path)
    return found


def _refuse_families(found: ModelsFile, path: Path) -> None:
    """Raise CompositionError for a family that cannot share layers: all variants must be made and asked alike."""
    entries = {each.name: each for each in found.models}
    own = Counter(name for each in found.families for name in each.variants)
    for family in found.families:
        known = [entries[name] for name in family.variants if name in entries]
        problem = ""
        if missing := [name for name in family.variants if name not in entries]:
            problem = f"{missing[0]!r} is no model: the models are {', '.join(entries)}"
        elif len(set(family.variants)) < 2 or any(own[name] > 1 for name in family.variants):
            problem = "it needs two variants or more, each of which is in one family and once"
        elif family.name in entries:
            problem = "a model has its name: give it another"
        elif any(each.onnx for each in known):
            problem = "the layers of ONNX files are not compared: give models of torch"
        elif len({(each.torch is None, tuple(each.input or ()), each.dtype, each.device, each.threads) for each in known}) > 1:
            problem = "its variants differ in source, input, dtype, device or threads: give all the same"
        if problem:
            raise CompositionError(f"The family {family.name!r} of {path} cannot be served: {problem}.")


def read_site(path: Path) -> ServingSiteFile:
    """The SITE file at `path`. Raises CompositionError with the place of a mistake."""
    return read_typed(path, ServingSiteFile, "SITE file", "It has machines, each with a name, a kind and its memory.")


def read_profiles(path: Path) -> tuple[LatencyProfile, ...]:
    """The profiles in the JSON file at `path`. Raises CompositionError for another file."""
    return tuple(read_typed(path, list[LatencyProfile], "profiles file", "Measure them with polyrhythm serve profile."))


def write_profiles(path: Path, profiles: Sequence[LatencyProfile]) -> None:
    """Write profiles to the file at `path`, in place of those of the same models and kinds; others stay."""
    known = read_profiles(path) if path.exists() else ()
    by_key = {(each.model, each.kind): each for each in (*known, *profiles)}
    _write(path, [by_key[key] for key in sorted(by_key)])


def read_plan(path: Path) -> ServingPlan:
    """The plan in the JSON file at `path`. Raises CompositionError for another file."""
    return read_typed(path, ServingPlan, "plan file", "Make one with polyrhythm serve plan.")


def write_plan(path: Path, plan: ServingPlan) -> None:
    """Write a plan to the file at `path`."""
    _write(path, plan)


def _write(path: Path, value: object) -> None:
    with replacing(path) as hidden:
        hidden.write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")


def _rules(kind: type[Written], given: Mapping[str, str | float], table: str, seconds: Sequence[str]) -> Written:
    known = list(signature(kind).parameters)
    for name in given:
        if name not in known:
            raise unknown(f"field of the SITE file's [{table}]", name, known)
    values = {name: units.duration(value) if name in seconds else value for name, value in given.items()}
    try:
        return kind(**values)
    except TypeError as problem:
        raise CompositionError(f"The SITE file's [{table}] cannot be used: {problem}. It has the fields of {kind.__name__}.") from problem
