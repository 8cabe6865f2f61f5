"""Variables of the training function that a resumed run makes anew: those with a state are restored, and reset counters are refused."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from polyrhythm.core.training.callers import users
from polyrhythm.core.training.loops import REQUEST, STEP
from polyrhythm.core.training.other_way import other_variable, refusal
from polyrhythm.core.training.own_state import carried
from polyrhythm.core.training.own_state.inner_parts import PROXIES
from polyrhythm.core.training.own_state.own_state import OwnState, called
from polyrhythm.core.trees import StateTree, separate
from polyrhythm.errors import CheckpointError, CompositionError, RecordWarning, WorkloadError


class KeptState(NamedTuple):
    """The functions that export and restore an object's state; it `follows_steps` if it changes after each step.

    It may be a learning-rate `schedule`. The state of a `foreign` class may be more than a checkpoint can hold.
    """

    export: Callable[[], StateTree]
    restore: Callable[[StateTree], object]
    follows_steps: bool = False
    schedule: LRScheduler | None = None
    foreign: bool = False


class Variables:
    """Numbers, text, tensors and lists of them that are in checkpoints: attributes, with the values that `Worker.variables` was given."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def state_dict(self) -> dict[str, Any]:
        """A copy of the values, by name."""
        return dict(self.__dict__)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the values in `state`."""
        self.__dict__.update(state)


class OwnVariables:
    """The values of the training function's variables at a checkpoint, and the check that they continue from there.

    `mine` are objects that the worker restores itself. `accept` names variables that may differ. `newcomer` is the
    name of a worker that has joined others.
    """

    def __init__(self, before: StateTree, mine: Callable[[], Collection[int]], accept: Collection[str], newcomer: str = "") -> None:
        self.before: StateTree = {"kind": "", "numbers": {}, "objects": {}, "own": {}} | (before or {})
        self.mine = mine
        self.accept = accept
        self.seen: dict[str, Any] = {"kind": "", "numbers": {}, "objects": {}, "own": {}}
        self.own = OwnState(self.before["own"], mine, self._has_a_state, accept, newcomer)
        self._first: dict[str, Any] | None = None
        self._kind = ""
        self._reported: set[str] = set()
        self.schedules: list[LRScheduler] = []
        self._missing = set(self.before["objects"])

    @property
    def names(self) -> set[str]:
        """The variables that the checkpoint has."""
        return {name.rpartition(":")[2] for name in (*self.before["numbers"], *self.before["objects"], *self.before["own"])}

    def look(self, kind: str, kept_by_user: Sequence[str]) -> None:
        """Remember the variables as they are, for a checkpoint that is written now.

        Raises WorkloadError in a step outside of loops, where objects will have another state when the iteration is over.
        """
        found = dict(self._objects())
        changing = [*kept_by_user, *(name for name, kept in found.items() if kept.follows_steps)]
        if kind == STEP and changing:
            raise WorkloadError(
                "A checkpoint is due in a loop without worker.batches, so it is written inside optimizer.step(), and what the iteration "
                f"does after that with {', '.join(changing)} would be missing from it: count the loop with `for step in worker.range(n):`."
            )
        objects = {}
        for name, kept in found.items():
            objects[name] = state = kept.export()
            try:
                separate(state if kept.foreign else None)
            except CompositionError as problem:
                self._tell(name, problem)
                del objects[name]
        self.seen = {"kind": kind, "numbers": _numbers(), "objects": objects, "own": self.own.look()}

    def _has_a_state(self, value: Any) -> bool:
        return type(value) not in PROXIES and not isinstance(value, nn.Module) and _kept(value, ()) is not None

    def _tell(self, name: str, problem: CompositionError) -> None:
        if name not in self._reported:
            self._reported.add(name)
            warnings.warn(
                f"{name} has a state that is not in the checkpoint, and a resumed run begins with a new one: {problem}",
                RecordWarning,
                stacklevel=2,
            )

    def arrived(self, kind: str) -> None:
        """The training function is where the checkpoint was written: restore its objects, and refuse counters that began anew."""
        known, self.schedules = self.before["objects"], []
        for name, kept in self._objects():
            if name in known:
                kept.restore(known[name])
                self.schedules += [kept.schedule] if kept.schedule is not None else []
                self._missing.discard(name)
        if STEP not in (kind, self.before["kind"]):
            self.own.arrived()
        if kind == self.before["kind"] and kind != STEP:
            now = _numbers()
            for name, value in self.before["numbers"].items():
                if name in now and not _same(now[name], value):
                    self._refuse(name, value, now[name])
        elif self.before["kind"]:
            self._first, self._kind = None, STEP if kind == STEP else REQUEST

    def moment(self, kind: str) -> None:
        """Check that counters continue, at the first two moments after an arrival at another place than that of the checkpoint."""
        if kind != self._kind:
            return
        now = _numbers()
        if self._first is None:
            self._first = now
            self._refuse_missing()
            if STEP in (kind, self.before["kind"]):
                self.own.moved_on()
            return
        self._kind = ""
        for name, value in self.before["numbers"].items():
            first, second = _size(self._first.get(name)), _size(now.get(name))
            before = _size(value)
            if first is None or second is None or before is None:
                continue
            along = (first - before) * (second - first)
            if along < 0 or (along == 0 and second != first and kind == STEP):
                self._refuse(name, value, self._first[name])

    def _refuse_missing(self) -> None:
        for name, _ in self._objects():
            if name in self._missing and name.rpartition(":")[2] not in self.accept:
                variable = name.rpartition(":")[2]
                raise CheckpointError(
                    f"{variable} has a state in the checkpoint, and was made after worker.attach, where a loop without worker.batches "
                    "continues in a resumed run: make it before worker.attach, or count the loop with `for step in worker.range(n):`."
                )

    def recorded(self, name: str) -> StateTree:
        """The state of a variable of this name, whatever function it is of; None where there is none."""
        for known in (self.before["objects"], self.before["numbers"]):
            for each, value in known.items():
                if _plain_name(each.rpartition(":")[2]) == name:
                    return value
        return self.own.recorded(name)

    def _refuse(self, name: str, there: Any, here: Any) -> None:
        function, _, variable = name.rpartition(":")
        if variable in self.accept:
            return
        text = (
            f"The variable {variable} of {function} was {_shown(there)} where the checkpoint was written and is {_shown(here)} now, since "
            "a resumed run calls the training function anew. Let loops count with worker.range(n), worker.enumerate(batches), "
            f"worker.batches(..., steps=n) or worker.clock, or keep it: own = worker.variables({_plain_name(variable)}=...), which takes "
            f"its value from this checkpoint. override=[{variable!r}] (--override {variable}) resumes with it as it is."
        )
        raise refusal(self.own.newcomer, other_variable(name, _shown(there), _shown(here), text))

    def _objects(self) -> Iterator[tuple[str, KeptState]]:
        mine, met = set(self.mine()), set()
        for frame in users():
            for name, value in _variables(frame):
                if id(value) in mine or id(value) in met:
                    continue
                kept = _kept(value, mine)
                if kept is not None:
                    met.add(id(value))
                    yield f"{called(frame)}:{name}", kept


def multiply(schedules: Iterable[LRScheduler], factors: Sequence[float]) -> None:
    """Multiply the learning rates that schedules begin with, group by group."""
    for schedule in schedules:
        for name in ("base_lrs", "_last_lr"):
            if len(rates := getattr(schedule, name, [])) == len(factors):
                setattr(schedule, name, [rate * factor for rate, factor in zip(rates, factors, strict=True)])


def _plain_name(variable: str) -> str:
    """The name of the variable alone, without the object that has it."""
    return variable.rpartition(".")[2].rpartition("['")[2].removesuffix("']")


def _numbers() -> dict[str, Any]:
    return {f"{called(frame)}:{name}": value for frame in users() for name, value in carried.numbers(frame).items()}


def _variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The variables of a function, without those of the functions around it, or of a script; and the attributes of `self`."""
    outside = frame.f_code.co_freevars
    for name, value in list(frame.f_locals.items()):
        if name not in outside and not name.startswith("__"):
            yield name, value
            if name == "self" and not isinstance(value, nn.Module):
                yield from ((f"self.{each}", held) for each, held in list(getattr(value, "__dict__", {}).items()))


def _kept(value: Any, mine: Collection[int]) -> KeptState | None:
    """Export and restore of an object that has a state; None for others."""
    if type(value) in PROXIES:
        return None
    if isinstance(value, torch.Generator):
        return KeptState(value.get_state, value.set_state)
    if isinstance(value, random.Random):
        return KeptState(value.getstate, value.setstate)
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        bits: Any = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
        return KeptState(lambda: _tree(bits.state), lambda state: setattr(bits, "state", _untree(state)))
    if isinstance(value, nn.Module):
        return _module(value, mine)
    if isinstance(value, type) or hasattr(type(value), "__iter__"):
        return None
    if all(callable(_method(value, name)) for name in ("state_dict", "load_state_dict")):
        return KeptState(
            value.state_dict, value.load_state_dict, isinstance(value, LRScheduler), value if isinstance(value, LRScheduler) else None, True
        )
    return None


def _method(value: Any, name: str) -> Any:
    """A method of an object, or of one that it forwards to; None where its __getattr__ raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _module(module: nn.Module, mine: Collection[int]) -> KeptState | None:
    """The parameters and buffers of a module that no attached model has: those of an average, or of a second network."""
    own = {name: tensor for name, tensor in (*module.named_parameters(), *module.named_buffers()) if id(tensor) not in mine}
    if not own:
        return None

    def restore(state: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in own.items():
                if name in state and state[name].shape == tensor.shape:
                    tensor.copy_(state[name])

    return KeptState(lambda: own, restore, follows_steps=True)


def _tree(state: Any) -> StateTree:
    if isinstance(state, dict):
        return {key: _tree(value) for key, value in state.items()}
    return {"array": torch.from_numpy(state.astype(np.int64)), "of": str(state.dtype)} if isinstance(state, np.ndarray) else state


def _untree(state: StateTree) -> Any:
    if isinstance(state, dict) and state.keys() == {"array", "of"}:
        return state["array"].numpy().astype(state["of"])
    return {key: _untree(value) for key, value in state.items()} if isinstance(state, dict) else state


def _same(a: Any, b: Any) -> bool:
    both = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return both or (type(a) is type(b) and a == b)


def _size(value: Any) -> float | None:
    if isinstance(value, (bool, int, float)):
        return value
    return len(value) if isinstance(value, list) else None


def _shown(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)
