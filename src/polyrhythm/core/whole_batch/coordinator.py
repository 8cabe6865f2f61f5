"""The coordinator of a whole batch: the user's optimizer, made again on vectors that are at the servers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.trees import StateTree, separate, unite
from polyrhythm.core.whole_batch.batch_requests import BatchRequests
from polyrhythm.core.whole_batch.orders import Deed, VectorOrder
from polyrhythm.core.whole_batch.remote_vector import RemoteVector, RemoteVectors
from polyrhythm.core.whole_batch.step_marks import CoordinatorNote
from polyrhythm.core.whole_batch.vectors import Contribution
from polyrhythm.errors import CompositionError

_REMOTE = "remote vector"


class BatchCoordinator:
    """Worker 0's part: an optimizer of the class and options of `optimizer`, on the one vector of all weights (numel,)."""

    def __init__(self, optimizer: torch.optim.Optimizer, numel: int, dtype: torch.dtype, context: WorkerContext) -> None:
        self.own = optimizer
        self.context = context
        self.requests: BatchRequests
        self.vectors = RemoteVectors(numel, dtype, self._send)
        self.weights = self.vectors.weights()
        self.optimizer = _again(optimizer, self.weights)
        self.evaluations = self.settled = 0
        self.loss = 0.0

    def _send(self, orders: Sequence[VectorOrder], contributions: Sequence[Contribution] = ()) -> list[list[float]]:
        answers: list[list[float]] = self.context.perform(self.requests.order(orders, contributions))
        return answers

    def step(self, closure: Callable[[], Any], number: int) -> float:
        """Take the steps of the optimizer up to that `number`; the loss of the last, which is that of its first evaluation.

        After a change of the crew it may be settled already, or the one before be lost.
        """
        while self.settled < number:
            self._step(closure, self.settled + 1)
        return self.loss

    def _step(self, closure: Callable[[], Any], number: int) -> None:
        for group, own in zip(self.optimizer.param_groups, self.own.param_groups, strict=True):
            group |= {name: value for name, value in own.items() if name != "params"}
        loss = float(self.optimizer.step(closure))
        if self.context.crew.changes:
            text, tensors = separate(self.export())
            noted = msgspec.json.encode([text, list(tensors)]).decode()
            self.context.perform(self.requests.note(CoordinatorNote(number, loss, noted, tuple(tensors.values()))))
        self.vectors.orders.append(VectorOrder(Deed.SETTLE, first=self.weights.handle.number, a=float(number)))
        self.vectors.flush()
        self.context.perform(self.requests.end_step(number, loss))
        self.settled, self.loss = number, loss

    def recover(self) -> None:
        """Continue from the last step that all servers have settled, whoever coordinated it."""
        last, note = self.context.perform(self.requests.recover())
        if note.text:
            text, names = msgspec.json.decode(note.text)
            self.restore(unite(text, dict(zip(names, note.tensors, strict=True))))
        self.evaluations, self.settled, self.loss = last, note.step, note.loss

    def begin(self) -> int:
        """Begin an evaluation of the weights as they are now: its number."""
        self.evaluations += 1
        self.vectors.orders.append(VectorOrder(Deed.PUBLISH, first=self.weights.handle.number, a=float(self.evaluations)))
        self.vectors.flush()
        self.context.perform(self.requests.begin(self.evaluations))
        return self.evaluations

    def gather(self, contributions: Sequence[Contribution]) -> None:
        """Make the sum of the contributions the gradient."""
        gradient = self.vectors.made(Deed.GATHER, a=float(self.evaluations))
        orders, self.vectors.orders = self.vectors.orders, []
        self._send(orders, contributions)
        self.weights.grad = gradient

    def export(self) -> StateTree:
        """The optimizer's state, with vectors as their numbers: the servers have them."""
        state = _map(dict(self.optimizer.state.get(self.weights, {})), _named)
        return {"evaluations": self.evaluations, "last": self.vectors.last, "state": state}

    def restore(self, state: StateTree) -> None:
        self.evaluations = state["evaluations"]
        self.vectors.last = state["last"]
        found = _map(state["state"], lambda each: self.vectors.known(int(each[_REMOTE])) if _is_named(each) else each)
        if found:
            self.optimizer.state[self.weights].update(found)


def _again(optimizer: torch.optim.Optimizer, weights: Tensor) -> torch.optim.Optimizer:
    kind = type(optimizer)
    options = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
    accepted = inspect.signature(kind).parameters
    try:
        return kind([weights], **{name: value for name, value in options.items() if name in accepted})
    except TypeError as problem:
        raise CompositionError(
            f"{kind.__name__} cannot be made again from the options of its group, as the coordinator of a whole batch needs it "
            f"({problem}): use torch.optim.LBFGS, or a class whose options are those of its __init__."
        ) from problem


def _named(value: Any) -> Any:
    return {_REMOTE: value.handle.number} if type(value) is RemoteVector else value


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_REMOTE}


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    """`value` with `function` applied to what is in its dicts and lists."""
    changed = function(value)
    if changed is not value:
        return changed
    if isinstance(value, dict):
        return {name: _map(each, function) for name, each in value.items()}
    return [_map(each, function) for each in value] if isinstance(value, (list, tuple)) else value
