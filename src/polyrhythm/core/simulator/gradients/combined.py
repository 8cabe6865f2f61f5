"""Gradients of several virtual workers at once.

A program that calls its model in training waits, and its step is charged at once, for its operations are those of the first such step. So
others that begin before that charge is due may join it. When the first of them is due, groups are computed, and each program goes on to
its charge, at its own time. Between a call and its charge nothing of that worker runs, so that each worker does the same as alone, and
charges keep their places among simultaneous events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.core.simulator.actors import BlockingProgram, VirtualActor
from polyrhythm.core.simulator.event_queue import EventQueue, Work
from polyrhythm.core.simulator.gradients.calls import CallGroup, CallKind, ComputingProgram, ModelCall, ModelSeat
from polyrhythm.core.simulator.gradients.executors import executor
from polyrhythm.core.simulator.gradients.first_calls import FirstCalls
from polyrhythm.core.simulator.gradients.groups import finish, outputs_of
from polyrhythm.core.simulator.gradients.handing import accumulate, handed_over
from polyrhythm.core.simulator.gradients.interception import Interception
from polyrhythm.core.simulator.gradients.sameness import refusal_now, seat_of, settings_of_modules
from polyrhythm.core.simulator.gradients.stacked import forget, forward, is_inside
from polyrhythm.core.simulator.gradients.values import UnknownValue, key_of
from polyrhythm.errors import GradientsError, Stopped

_KINDS = 64
"""Calls of more kinds than that are computed one by one."""


class Resuming(Protocol):
    """The scheduler."""

    queue: EventQueue
    fail: Callable[[VirtualActor, BaseException], None]

    def charge(self, actor: VirtualActor, seconds: float, work: Work) -> None:
        """Occupy the actor's device for `seconds`, then do `work`."""

    def go_on(self, program: BlockingProgram, _: None) -> None:
        """The charge of a program is over."""


class Combined:
    """Computes the gradients of programs in groups, on that many `threads`."""

    def __init__(self, threads: int) -> None:
        self._executor = executor(threads)
        self._interception = Interception(self)
        self._seats: dict[int, ModelSeat] = {}
        self._codes: dict[Hashable, int] = {}
        self._kinds: dict[Hashable, CallKind] = {}
        self._first = FirstCalls()
        self._open: dict[CallKind, CallGroup] = {}
        self._closed: list[CallGroup] = []
        """Groups that wait for more calls, and those that are computed."""
        self._parked: dict[VirtualActor, ModelCall] = {}
        self._delivered: ModelCall | None = None
        """The call whose outputs have got gradients in the backward pass that is under way."""
        self._together = 0
        self._alone: Counter[str] = Counter()
        self._scheduler: Resuming

    def begin(self, scheduler: Resuming) -> None:
        """Intercept what training functions compute from now on."""
        self._scheduler = scheduler
        self._interception.begin()

    def end(self) -> Mapping[str, str]:
        """Intercept nothing more. Returns how many gradients were computed together, and why others were not."""
        self._interception.end()
        self._executor.shutdown()
        forget()
        apart = sorted({kind.apart for kind in self._kinds.values() if kind.apart and not kind.reason})
        parts = [f"{self._together} passes side by side" + (f" (not stacked: {'; '.join(apart)})" if apart else "")]
        parts += sorted(
            {f"a model one by one, because {each.refusal}" for each in self._seats.values() if each.refusal and not each.called}
        )
        parts += [f"{times} one by one, because {reason}" for reason, times in sorted(self._alone.items())]
        return {"gradients": "; ".join(parts)}

    def guard(self, wake: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """What a worker's program computes comes before its coroutines."""

        def guarded(task: Any, value: Any) -> None:
            if (call := self._parked.get(task.actor)) is not None:
                self._settle(call)
            wake(task, value)

        return guarded

    def follow(self, program: ComputingProgram, model: nn.Module, refusal: str) -> None:
        """`program` trains `model`, which is never computed with others where there is a `refusal`."""
        seat = self._seats[id(model)] = seat_of(program, model, refusal)
        self._codes.setdefault(seat.code, len(self._codes))
        if not seat.refusal:
            self._interception.take(type(model))

    def charged(self, program: ComputingProgram, flops: int) -> None:
        """The first call of a kind ends with its step."""
        self._first.end(program, flops)

    def communicates(self, program: ComputingProgram) -> None:
        """The first call of a kind is none that can be computed with others. Raises GradientsError where that was not so."""
        if self._first.now is not None:
            self._first.refuse("it communicates between a forward pass and its step")
            self._first.end(program, self._first.now.before)
        elif program.foreseen is not None:
            raise _unlike(program, "communicates between a forward pass and its step")

    def differentiates(self) -> None:
        """`torch.autograd.grad` is called, which would not reach the weights."""
        if is_inside():
            return
        if self._first.now is not None:
            self._first.refuse("torch.autograd.grad is called in its steps")
        elif (call := self._running()) is not None:
            raise _unlike(call.program, "calls torch.autograd.grad")

    def swept(self, again: bool) -> None:
        """A backward pass of a program is over: it waits for the gradients of its weights."""
        if self._first.now is not None:
            self._first.swept(again)
        call, self._delivered = self._delivered, None
        if call is None:
            return
        if again:
            raise _unlike(call.program, "keeps its graph after backward()")
        accumulate(call.seat.trained, call.program.park())

    def call(self, model: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A model is called: its program waits, if the call can be computed with those of others."""
        seat = self._seats.get(id(model))
        if seat is None or is_inside() or not torch.is_grad_enabled() or seat.program.aside:
            return forward(model, *args, **kwargs)
        seat.called = True
        if seat.program.foreseen is not None:
            raise _unlike(seat.program, "calls a model again before its step")
        if self._first.now is not None:
            self._first.refuse("several forward passes are made for a step")
        reason, kind = self._kind(seat, args, kwargs)
        if kind is not None and not kind.reason and not reason:
            return self._park(seat, kind, forward, args, kwargs)
        self._alone[reason or ("the first of its kind is" if kind is None else kind.reason)] += 1
        if reason or kind is not None or self._first.now is not None:
            return forward(model, *args, **kwargs)
        kind = self._kinds[self._key(seat, args, kwargs)] = CallKind()
        return self._first.compute(seat, kind, forward, args, kwargs)

    def _kind(self, seat: ModelSeat, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, CallKind | None]:
        """Why a call is computed alone, or its kind; None for a new one."""
        if reason := refusal_now(seat):
            return reason, None
        try:
            kind = self._kinds.get(self._key(seat, args, kwargs))
        except UnknownValue as found:
            return str(found), None
        if kind is None and len(self._kinds) >= _KINDS:
            return "its calls are of many kinds", None
        return ("several forward passes are made for a step" if self._first.now is not None else ""), kind

    def _key(self, seat: ModelSeat, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        code = id(seat) if seat.code is None else self._codes[seat.code]
        wanted = tuple([each.requires_grad for each in seat.parameters])
        return code, wanted, settings_of_modules(seat.modules), key_of(args, kwargs)

    def _park(self, seat: ModelSeat, kind: CallKind, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        program, actor = seat.program, seat.program.actor
        seat.trained = [each for each in seat.parameters if each.requires_grad]
        seconds = program.foresee(kind.flops)
        call = ModelCall(seat, kind, forward, args, kwargs, self._scheduler.queue.now, seconds)
        self._scheduler.charge(actor, seconds, (self._due, call, None))
        self._parked[actor] = call
        group = call.group = self._open.setdefault(kind, CallGroup(kind))
        group.calls.append(call)
        if len(group.calls) >= kind.most:
            self._submit(group)
        self._together += 1
        leaves, shape = program.park()
        return handed_over(leaves, shape, partial(self._keep, call))

    def _keep(self, call: ModelCall, gradients: tuple[Tensor, ...]) -> None:
        if call.gradients is not None or self._delivered is not None or call.settled:
            raise _unlike(call.program, "goes backward through a call of its model twice")
        call.gradients, self._delivered = gradients, call

    def _running(self) -> ModelCall | None:
        """The call of the program that runs now, between its forward pass and its step."""
        return next((call for call in self._parked.values() if call.program.foreseen is not None and not call.program.parked), None)

    def _submit(self, group: CallGroup) -> None:
        del self._open[group.kind]
        group.outputs = self._executor.submit(forward, group.calls)
        self._closed.append(group)

    def _due(self, call: ModelCall, _: None) -> None:
        """The charge of a call is over."""
        if not call.actor.ended:
            self._settle(call)
        if not call.actor.ended and not call.program.ended:
            self._scheduler.go_on(call.program, None)

    def _settle(self, call: ModelCall) -> None:
        """Let the program of `call` come to its charge, with all others whose groups are complete."""
        if call.settled:
            return
        if call.group.outputs is None:
            self._submit(call.group)
        closed, self._closed = self._closed, []
        groups = [each for group in closed for each in outputs_of(group, self._executor, partial(self._resume, value=None))]
        for group in groups:
            assert group.outputs is not None, "it was submitted"
            outputs = group.outputs.result()
            for place, each in enumerate(group.calls):
                self._resume(each, (outputs.of(place), outputs.shape))
            finish(group, self._executor)
        for group in groups:
            if group.gradients is not None:
                for each, own in zip(group.calls, group.gradients.result(), strict=True):
                    if each.gradients is not None:
                        self._resume(each, own)

    def _resume(self, call: ModelCall, value: Any, error: BaseException | None = None) -> None:
        """Continue the program of `call`, at the time at which it made it, to where it waits next."""
        program, queue = call.program, self._scheduler.queue
        if call.settled or program.ended or call.actor.ended:
            self._pass(call)
            return
        queue.now, now = call.since, queue.now
        try:
            request = program.run(value, error)
        except (Stopped, GradientsError):
            raise
        except (Exception, SystemExit) as problem:
            self._pass(call)
            self._scheduler.fail(call.actor, problem)
            return
        finally:
            queue.now = now
        if program.parked:
            return
        seconds, program.charged = program.charged, 0.0
        if request is not None or program.ended or program.started or seconds != call.seconds:
            raise _unlike(program, "ends without a step")
        self._pass(call)

    def _pass(self, call: ModelCall) -> None:
        call.settled = True
        self._parked.pop(call.actor, None)


def _unlike(program: ComputingProgram, what: str) -> GradientsError:
    return GradientsError(
        f"The training function of {program.actor.name} {what}, which it did not in its first steps, so that its gradients cannot be "
        "computed with those of others: give the simulator gradients=OneByOne(), its default."
    )
