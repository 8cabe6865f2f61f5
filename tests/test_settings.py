"""Absurd values for every setting of every public piece: refused with a sentence when it is made, or taken; never another error."""

import dataclasses
import importlib
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware import network
from polyrhythm.tools.planner.plan import PlanRequest

LISTS = (
    *("codec", "topology", "merge", "consistency", "shuffle", "local_rules", "controllers", "parameters", "buffers", "groups"),
    "workloads.block_schedules",
)
ABSURD: dict[str, Any] = {
    **{repr(value): value for value in (0, -1, 10**6, 10**9, 2**63, 1e-300, 1e300, math.inf, -math.inf, math.nan, 0.5, -0.5, 1 + 2j)},
    **{repr(value): value for value in (True, None, "", "3", "\0", b"x", [], (), {}, [None], np.int64(3), np.float32(0.5))},
    "10**400": 10**400,
}
MADE: dict[str, Any] = {
    "Crash": pr.hardware.Crash("worker/0", 1.0),
    "Stall": pr.hardware.Stall("worker/0", 1.0, 1.0),
    "Disconnect": pr.hardware.Disconnect("a", "b", 1.0, 1.0),
    "Drop": pr.hardware.Drop(0.1),
    "Segfault": pr.hardware.Segfault("worker/0", 1.0),
    "Exit": pr.hardware.Exit("worker/0", at=1.0),
    "HoldGIL": pr.hardware.HoldGIL("worker/0", 1.0, 1.0),
    "SlowDisk": pr.hardware.SlowDisk("worker/0", 1.0, at=1.0),
    "Leave": pr.hardware.Leave("worker/0", 1.0),
    "Join": pr.hardware.Join(1.0),
    "Partition": pr.hardware.Partition((("a",), ("b",)), 1.0),
    "Preemptions": pr.hardware.Preemptions(1.0),
    "Trace": pr.hardware.Trace("spot-calm"),
    "RandomCrashes": pr.hardware.RandomCrashes(1.0),
    "RandomStalls": pr.hardware.RandomStalls(1.0, 1.0),
    "RandomCuts": pr.hardware.RandomCuts("a", "b", 1.0, 1.0),
    "Kubernetes": pr.launchers.Kubernetes("image"),
    "Crew": pr.Crew(2, 8),
    "PlanRequest": PlanRequest("accuracy=0.9"),
    "Network": network.load("wan-3"),
}


def inside(value: Any, found: dict[type, Any]) -> None:
    """Add the pieces that `value` is made of, the first of each class."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("polyrhythm."):
        found.setdefault(type(value), value)
        for field in dataclasses.fields(value):
            inside(getattr(value, field.name), found)
    elif isinstance(value, (tuple, list)):
        for item in value:
            inside(item, found)


def pieces() -> Iterator[tuple[type, Any]]:
    found: dict[type, Any] = {}
    for name in systems.SYSTEMS:
        inside(systems.find(name), found)
    for package in LISTS:
        inside(list(importlib.import_module(f"polyrhythm.{package}").MEMBERS), found)
    public_names = {name: getattr(pr, name) for name in pr.__all__} | {"PlanRequest": PlanRequest}
    for package in ("hardware", "launchers", "loggers", "sources"):
        public_names |= {name: getattr(getattr(pr, package), name) for name in getattr(pr, package).__all__}
    for name, public in public_names.items():
        if inspect.isclass(public) and dataclasses.is_dataclass(public) and public not in found:
            needed = [field for field in dataclasses.fields(public) if field.default is field.default_factory is dataclasses.MISSING]
            if name in MADE or not needed:
                inside(MADE[name] if name in MADE else public(), found)
    yield from sorted(
        ((kind, made) for kind, made in found.items() if "__post_init__" in vars(kind)), key=lambda each: each[0].__qualname__
    )


def outcome(made: Any, name: str, value: Any) -> str:
    """Nothing where the piece takes the value or refuses it with a sentence; else the error."""
    try:
        dataclasses.replace(made, **{name: value})
    except PolyrhythmError as refused:
        return "" if len(str(refused)) > 20 else f"no sentence: {refused}"
    except Exception as raw:
        return f"{type(raw).__name__}: {raw}"
    return ""


def test_every_absurd_setting_of_every_piece_is_taken_or_refused_with_a_sentence() -> None:
    tried, wrong = 0, []
    for kind, made in pieces():
        if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in inspect.signature(kind).parameters.values()):
            continue  # made of positional arguments
        for field in filter(lambda field: field.init, dataclasses.fields(kind)):
            for shown, value in ABSURD.items():
                tried += 1
                if problem := outcome(made, field.name, value):
                    wrong.append(f"{kind.__name__}({field.name}={shown}): {problem}")
    assert tried > 8000
    assert wrong == []


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: pr.codec.TopK("3"), r"TopK\(ratio='3'\) is given a str where a number belongs: give that"),  # type: ignore[arg-type]
        (lambda: pr.consistency.Bounded(True), r"Bounded\(slack=True\) is given a bool where a whole number belongs"),
        (lambda: pr.codec.Striped(3), r"Striped\(inner=3\) is given an int where a Codec belongs"),  # type: ignore[arg-type]
        (lambda: pr.topology.Server(2**70), r"is given a number of more than 64 bits where a whole number belongs"),
        (lambda: pr.merge.Adam(betas=(0.9,)), r"Adam\(betas=\(0.9,\)\)"),  # type: ignore[arg-type]
        (lambda: pr.parameters.Named(3), r"Named\(3\) has what is no text"),  # type: ignore[arg-type]
    ],
)
def test_what_is_given_and_what_is_expected_are_reported(made: Any, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        made()


def test_numbers_of_numpy_become_pythons_own() -> None:
    assert repr(pr.consistency.Bounded(np.int64(3))) == "Bounded(slack=3)"  # type: ignore[arg-type]
    assert repr(pr.codec.TopK(np.float64(0.5))) == "TopK(ratio=0.5)"


ABSURD_OPTIONS = (0, -1, 10**6, 2**62, 10**30, math.nan, math.inf, 1e-300, 1e300, True, "", "x", None, [])


@pytest.mark.parametrize("name", [name for name in systems.SYSTEMS if inspect.signature(systems.SYSTEMS[name]).parameters])
def test_absurd_options_of_systems_are_taken_or_refused_with_a_sentence(name: str) -> None:
    refused: list[str] = []
    for option in inspect.signature(systems.SYSTEMS[name]).parameters:
        for value in ABSURD_OPTIONS:
            try:
                systems.find(name, **{option: value})
            except PolyrhythmError as problem:
                refused.append(str(problem))
    assert refused
    assert min(map(len, refused)) > 20


def never(worker: pr.Worker) -> None:
    raise AssertionError("it ran")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 10**6}, "workers=1000000 is more than a machine can hold"),
        ({"workers": 10**5000}, "workers=<int> has more than 64 bits"),
        ({"seed": 10**5000}, "seed=<int> has more than 64 bits"),
        ({"strategy": systems.find("ssp", servers=10**6)}, "1000000 servers are more than a run can hold"),
        ({"strategy": systems.find("mxnet", servers=2**62)}, "servers are more than a run can hold"),
        ({"directory": ""}, "is not a path: it is empty"),
        ({"checkpoints": "runs/c"}, r"checkpoints='runs/c' are none: give such as pr.Checkpoints"),
        ({"loggers": 3}, "loggers=3 is no list of loggers"),
        ({"loggers": "csv"}, "loggers='csv' is no list of loggers"),
    ],
)
def test_absurd_arguments_of_a_run_are_refused_before_anything_runs(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(PolyrhythmError, match=message):
        pr.run(never, **{"on": pr.Simulator(), **options})


@pytest.mark.parametrize("size", [math.nan, math.inf, "x", True, [], 0.5, 0, -1])
def test_a_batch_size_that_is_none_is_refused(size: Any) -> None:
    def train(worker: pr.Worker) -> None:
        worker.batches(range(10), size)

    with pytest.raises(PolyrhythmError, match=r"batch_size=.* is not a (whole number|batch size)"):
        pr.run(train, workers=1, on=pr.Simulator())


def train_shortly(worker: pr.Worker) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    for (inputs,) in worker.batches((torch.ones(8, 3),), 2):
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("diloco", "period", 2**62),
        ("elephas", "period", 10**9),
        ("dl4j-averaging", "depth", 2**62),
        ("streaming-diloco", "parts", 10**6),
        ("downpour", "initial_sum", 1e300),
        ("fedadam", "epsilon", 1e300),
    ],
)
def test_what_is_absurd_in_a_system_ends_within_seconds(name: str, option: str, value: Any) -> None:
    try:
        pr.run(train_shortly, workers=2, strategy=systems.find(name, **{option: value}), on=pr.Simulator())
    except CompositionError as problem:
        assert ": give" in str(problem) or ", so give" in str(problem)  # noqa: PT017 (either ending is right)
