"""One worker's side of a whole batch: it computes the portions that it is dealt; worker 0 coordinates too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import ViewChange, ViewChanged
from polyrhythm.core.protocols.common_state import Donor
from polyrhythm.core.settings import shown
from polyrhythm.core.trees import StateTree
from polyrhythm.core.whole_batch.batch_messages import Reply
from polyrhythm.core.whole_batch.batch_requests import BatchRequests
from polyrhythm.core.whole_batch.coordinator import BatchCoordinator
from polyrhythm.core.whole_batch.portion_dealer import PortionDeal
from polyrhythm.core.whole_batch.portions import Portions
from polyrhythm.errors import CheckpointError, WorkloadError, diverged

Loss = Callable[..., Tensor]


class BatchJob(NamedTuple):
    """What is minimised: the mean of `loss` over all samples of `portions`, by the `parameters` of `model`."""

    model: nn.Module
    parameters: Sequence[nn.Parameter]
    portions: Portions
    loss: Loss

    def flat(self) -> Tensor:
        """The weights (numel,), in new memory."""
        return torch.cat([each.detach().reshape(-1) for each in self.parameters]).cpu()

    def write(self, weights: Tensor) -> None:
        """Set the parameters to these weights (numel,)."""
        with torch.no_grad():
            parts = torch.split(weights, [each.numel() for each in self.parameters])
            for each, part in zip(self.parameters, parts, strict=True):
                each.copy_(part.view_as(each))

    def gradient(self, portion: int) -> tuple[float, Tensor]:
        """The loss of a portion and its gradient (numel,), both weighed by its share of all samples."""
        for each in self.parameters:
            each.grad = None
        with torch.enable_grad():
            loss = self.loss(*self.portions.batch(portion))
            if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise WorkloadError(
                    f"The loss of worker.whole_batch returned {shown(loss)}: return the mean loss of a portion's samples, a tensor of one "
                    "element that depends on the parameters."
                )
            loss.backward()  # type: ignore[no-untyped-call]
        share = self.portions.count(portion) / self.portions.samples
        found = [torch.zeros_like(each) if each.grad is None else each.grad for each in self.parameters]
        return float(loss.detach()) * share, torch.cat([each.detach().reshape(-1) for each in found]).cpu() * share


class BatchState:
    """`clock` counts steps of the optimizer; `evaluation` is the last one in which this worker took part."""

    def __init__(self, job: BatchJob, context: WorkerContext, coordinator: BatchCoordinator | None) -> None:
        self.job = job
        self.context = context
        self.coordinator = coordinator
        self.requests: BatchRequests
        self.clock = self.evaluation = self.told = self.evaluated = 0
        self.samples = 0
        self.stepping = self.finished = False
        self.content: Tensor | None = None
        self.reform: Callable[[ViewChange], bool] = _cannot_reform

    def connect(self, servers: Sequence[str], port: Port) -> None:
        """Talk to these servers from now on."""
        self.requests = BatchRequests(servers, port)
        if self.coordinator is not None:
            self.coordinator.requests = self.requests

    def regroup(self, servers: Sequence[str], port: Port, coordinator: BatchCoordinator | None, clock: int) -> None:
        """Continue among other workers: the first of them coordinates, from the last step that all servers have settled."""
        self.clock, self.coordinator = clock, coordinator
        self.connect(servers, port)
        if coordinator is not None:
            coordinator.recover()

    def run(self, closure: Callable[[], Any]) -> float:
        """Make the evaluations of one step: the coordinator as its optimizer wants them, the others as they are told. Returns the loss."""
        self.stepping = True
        try:
            loss = self._run(partial(self._once, closure))
        finally:
            self.stepping = False
        if not loss - loss == 0:
            raise diverged(f"The loss of the whole batch is {loss} at step {self.clock + 1}")
        return loss

    def _run(self, once: Callable[[], Any]) -> float:
        while True:
            try:
                return self._follow(once) if self.coordinator is None else self.coordinator.step(once, self.clock + 1)
            except ViewChanged as interruption:  # what was under way is done again among those who are left
                self.reform(interruption.change)

    def _follow(self, closure: Callable[[], Any]) -> float:
        while True:
            answer = self.context.perform(self.requests.following(self.clock + 1, self.evaluation))
            if answer.kind is Reply.STEP_OVER:
                return float(answer.numbers[0])
            self.told = int(answer.numbers[0])
            closure()

    def _once(self, closure: Callable[[], Any]) -> Any:
        """Call `closure`. Raises WorkloadError unless it evaluates the whole batch once."""
        self.evaluated = 0
        loss = closure()
        if self.evaluated != 1:
            raise WorkloadError(
                f"The closure of optimizer.step() called what worker.whole_batch returned {self.evaluated} times: call it once, for the "
                "loss."
            )
        return loss

    def evaluate(self) -> Tensor:
        """Take part in the evaluation under way: the loss of the whole batch (); its gradient is at the servers."""
        if not self.stepping:
            raise WorkloadError(
                "A whole batch is evaluated by optimizer.step(closure), and was called outside of it: give it as the closure."
            )
        self.evaluation = self.told if self.coordinator is None else self.coordinator.begin()
        self.evaluated += 1
        loss, text = self._take_part()
        if self.coordinator is not None:
            self.coordinator.gather([(name, number) for name, number in msgspec.json.decode(text)])
        return torch.tensor(loss, dtype=torch.float64)

    def _take_part(self) -> tuple[float, str]:
        """Compute portions until the evaluation is over: its loss, and for the coordinator what is to be gathered."""
        fetched, number, done, loss = False, 0, -1, 0.0
        total = last = torch.empty(0)
        while True:
            answer = self.context.perform(self.requests.portion(self.evaluation, done, loss))
            if answer.kind is Reply.EVALUATED:
                return answer.numbers[0], answer.text
            accepted, dropped, push, portion = answer.numbers
            deal = PortionDeal(bool(accepted), bool(dropped), bool(push), int(portion))
            if deal.dropped:
                total, number = torch.empty(0), number + 1
            if deal.accepted:
                total = total + last if len(total) else last
                self.samples += self.job.portions.count(done)
            if deal.push:
                self.context.perform(self.requests.push(self.evaluation, number, total))
                total, number = torch.empty(0), number + 1
            done = deal.portion
            if done >= 0:
                if not fetched:
                    self.job.write(self.context.perform(self.requests.fetch(self.evaluation)))
                    fetched = True
                loss, last = self.context.counted(partial(self.job.gradient, done))
                self.context.charge(self.job.portions.count(done))

    def step(self, samples: int) -> None:
        """Count the step whose evaluations were made."""
        self.clock += 1

    def finish(self) -> None:
        """Take the final weights over; the servers end when all workers have."""
        self.context.stopped(self.clock)
        self.finished = True
        self.content = self.context.perform(self.requests.result(self.clock))
        self.job.write(self.content)
        self.context.perform(self.requests.end())

    def drain(self, step: int) -> str:
        problem: str = self.context.perform(self.requests.drain(step))
        return problem

    @property
    def shape(self) -> str:
        """What must be the same in a resumed run."""
        portions = self.job.portions
        return f"{sum(each.numel() for each in self.job.parameters)} weights, {portions.samples} samples in {len(portions)} portions"

    def export(self) -> StateTree:
        """The vectors are with the servers."""
        coordinator = None if self.coordinator is None else self.coordinator.export()
        return {"shape": self.shape, "clock": self.clock, "evaluation": self.evaluation, "coordinator": coordinator}

    def restore(self, state: StateTree) -> None:
        if state["shape"] != self.shape:
            raise CheckpointError(
                f"The checkpoint has a whole batch of {state['shape']}, and worker.whole_batch was given {self.shape}: resume with the "
                "training function that wrote it."
            )
        self.clock, self.evaluation = state["clock"], state["evaluation"]
        if self.coordinator is not None:
            self.coordinator.restore(state["coordinator"])
            self.coordinator.settled = self.clock

    def take_over(self, state: StateTree, own: bool, left: Sequence[StateTree] = (), donor: Donor | None = None) -> None:
        """Nothing but counts is a worker's own between two steps."""
        self.restore(state)


def _cannot_reform(change: ViewChange) -> bool:
    """No crew changes: nothing interrupts a step."""
    raise AssertionError("a crew that is fixed has changed")
