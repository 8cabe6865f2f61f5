"""Whatever a training function gives to its worker is taken, or refused with a sentence at the call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from toy import data, network

from polyrhythm.core.processes import Processes
from polyrhythm.core.training.evaluation import every_moment
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, PolyrhythmError, WorkerFailed, WorkloadError

from .scenes import go, loop, sgd

ABSURD = (None, -5, 0, 1.5, math.nan, math.inf, True, "", "x", b"x", [], {}, object(), torch.ones(2), len, nn.Linear, 1 + 2j)
Call = Callable[[Any], object]
"""Of a method of the worker that it is given."""


def _calls(method: str, *sound: Any, **options: Any) -> Iterator[tuple[str, Call]]:
    """Calls of a method with what is `sound`, each time with something absurd in the place of one of them."""
    for value in ABSURD:
        for place in range(len(sound)):
            given = (*sound[:place], value, *sound[place + 1 :])
            yield f"{method}: {place} is {value!r}", lambda worker, given=given: getattr(worker, method)(*given, **options)
        for name in options:
            other = {**options, name: value}
            yield f"{method}: {name} is {value!r}", lambda worker, other=other: getattr(worker, method)(*sound, **other)


def _attached(method: str, *sound: Any, **options: Any) -> Iterator[tuple[str, Call]]:
    """The same, after a model was attached."""

    def after(call: Call) -> Call:
        def made(worker: Any) -> object:
            model = network()
            worker.attach(model, sgd(model))
            return call(worker)

        return made

    return ((name, after(call)) for name, call in _calls(method, *sound, **options))


def _swapped(worker: Any) -> object:
    model = network()
    return worker.attach(sgd(model), model)


def _clipped(value: Any) -> Call:
    def call(worker: Any) -> object:
        model = network()
        return worker.attach(model, sgd(model), clip_norm=value)

    return call


def _enumerated(value: Any) -> Call:
    return lambda worker: worker.enumerate(worker.batches(data(), 8), value)


def identity(model: nn.Module) -> None:
    """Writes nothing."""


def measured(model: nn.Module) -> dict[str, float]:
    """No matter what."""
    return {"loss": 0.0}


MODEL = network()


def _whole(portion: Any, copies: Any) -> Call:
    """A closure over all data in portions of that size."""

    def call(worker: Any) -> object:
        model = network()
        optimizer = torch.optim.LBFGS(model.parameters())
        return worker.whole_batch(model, optimizer, data(), nn.functional.mse_loss, portion=portion, copies=copies)

    return call


METHODS: dict[str, list[tuple[str, Call]]] = {
    "attach": [
        *_calls("attach", MODEL, sgd(MODEL), name="m"),
        ("swapped", _swapped),
        *((f"clip_norm {value!r}", _clipped(value)) for value in ABSURD),
    ],
    "build": [each for each in _calls("build", network) if "<built-in" not in each[0] and "<class" not in each[0]],
    "clip_gradients": [*_attached("clip_gradients", 1.0)],
    "train_step": [*_calls("train_step", 1.0, 1.0)],
    "constrain": [*_attached("constrain", identity, MODEL)],
    "table": [*_calls("table", "t", rows=4, columns=1, row=None, initial=None, cache=None)],
    "keep": [*_attached("keep", it=None)],
    "variables": [*_attached("variables", it=None)],
    "enumerate": [*_attached("enumerate", None), *((f"start {value!r}", _enumerated(value)) for value in ABSURD)],
    "batches": [*_attached("batches", data(), 8, steps=2)],
    "range": [*_attached("range", 2), *_attached("range", 0, 5, 2), ("nothing", lambda worker: worker.range())],
    "epochs": [*_attached("epochs", 2)],
    "on_change": [*_attached("on_change", identity)],
    "sampler": [*_attached("sampler", data()[0], True, True)],
    "shard": [*_attached("shard", [1, 2])],
    "report": [*_attached("report", it=1.0)],
    "evaluate": [each for each in _attached("evaluate", measured, every_moment) if "<built-in" not in each[0] and "<class" not in each[0]],
    "mean": [*_calls("mean", 1.0)],
    "any": [*_calls("any", True)],
    "broadcast": [*_calls("broadcast", 1)],
    "gather": [*_calls("gather", 1)],
    "print": [*_calls("print", 1)],
    "count": [*_attached("count", 1)],
    "whole_batch": [(f"portion {value!r}", _whole(value, 2)) for value in ABSURD]
    + [(f"copies {value!r}", _whole(4, value)) for value in ABSURD],
}
WITHOUT_ARGUMENTS = {"barrier", "close", "finish", "leave", "own_metrics", "save", "weights"}


def test_all_methods_of_a_worker_are_among_these() -> None:
    public = {name for name, _ in inspect.getmembers(Worker, inspect.isfunction) if not name.startswith("_")}
    assert public - WITHOUT_ARGUMENTS == METHODS.keys()


@pytest.mark.parametrize("method", METHODS)
def test_what_it_is_given_is_taken_or_refused_with_a_sentence(method: str) -> None:
    raw = {}
    for name, call in METHODS[method]:

        def train(worker: Any, call: Call = call) -> None:
            made = call(worker)
            if method in ("range", "enumerate", "batches", "sampler", "shard"):
                next(iter(made), None)  # type: ignore[call-overload]

        try:
            go(train, "ssp" if method == "table" else "allreduce", 1)
        except WorkerFailed as failed:
            raw[name] = repr(failed.__cause__)
        except PolyrhythmError:
            pass
    assert raw == {}


def test_swapped_arguments_a_negative_count_and_half_a_sample_are_named() -> None:
    message = {
        _swapped: "worker.attach was given the optimizer first and the model second: call worker.attach(model, optimizer).",
        _clipped(-1): "worker.attach was given clip_norm=-1, and gradients have no norm to be clipped to that: give a number above 0",
        lambda worker: worker.attach(None, None): "worker.attach was given None as its model: give a torch.nn.Module",
        lambda worker: worker.count(-5): "worker.count was given -5: give how many samples the next step uses, 0 or more.",
        lambda worker: worker.count(1.5): "worker.count was given 1.5: give",
        lambda worker: worker.range(1.5): "worker.range(1.5) counts nothing ('float' object cannot be interpreted as an integer): give",
    }
    for call, sentence in message.items():
        with pytest.raises(WorkloadError) as caught:
            go(call, workers=1)
        assert sentence in str(caught.value)


def test_what_is_sound_is_taken() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model), clip_norm=math.inf)
        worker.count(torch.tensor(4))
        worker.count(2.0)
        assert list(worker.range(torch.tensor(2))) == [0, 1]
        loop(worker, model, optimizer)

    go(train)


def clips_apart(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, sgd(model), clip_norm=1.0 if worker.rank else 0.5)
    loop(worker, model, optimizer)


def attaches_twice_alone(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    if worker.rank == 0:
        other = network()
        worker.attach(other, sgd(other))
    loop(worker, model, optimizer)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (clips_apart, "worker/0 has clip_norm 0.5, worker/1 has clip_norm 1: attach the same model and optimizer at every worker"),
        (
            attaches_twice_alone,
            "worker/0 has optimizer number 2 SGD, worker/1 has no optimizer number 2: attach the same model and optimizer at every worker, "
            "equally often",
        ),
    ],
)
def test_what_one_worker_attaches_otherwise_is_named_with_its_own_remedy(train: Call, message: str) -> None:
    for system in ("allreduce", "ssp", "easgd"):
        with pytest.raises(CompositionError) as caught:
            go(train, system)
        assert message in str(caught.value)
    with pytest.raises(CompositionError) as caught:
        run(train, workers=2, strategy="allreduce", on=Processes())
    assert message in str(caught.value)
