"""Exchanges among virtual workers without a training around them: one operation is asked of all, and its results and messages are counted.
Reproductions call `ask` to test a collective or a negotiation alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import AnyEvent, Sent
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.hardware.network import Network

Question = Callable[[Port, Group], Coroutine[Effect[Any], Any, Sequence[Tensor]]]


@dataclass(frozen=True, slots=True)
class Answers:
    """The results of every worker, and their cost; `through` are the bytes that each worker sent and was sent, by rank."""

    tensors: list[tuple[Tensor, ...]]
    seconds: float
    messages: int
    through: list[int]


def ask(workers: int, question: Question, network: Network, seed: int = 0) -> Answers:
    """Let `workers` carry out `question` together. Raises DeadlockError where they wait for each other for ever."""
    sent: list[Sent] = []

    def program(context: WorkerContext) -> Message:
        group = Group.of_workers(workers, rank_of(context.port.name), seed)
        return Message("answer", tensors=tuple(context.perform(question(context.port, group))))

    def note(event: AnyEvent) -> None:
        if isinstance(event, Sent):
            sent.append(event)

    on = Simulator(network=network, record_sends=True, separate_randomness=False)
    ending = on.execute(Job(workers, 0, program, _no_service, lambda _: True, seed), note)
    names = [worker(rank) for rank in range(workers)]
    results = [ending.results[name] for name in names]
    return Answers(
        [result.tensors for result in results if result is not None],
        ending.seconds,
        ending.messages_sent,
        [sum(event.nbytes for event in sent if name in (event.actor, event.to)) for name in names],
    )


async def _no_service(port: Any, record: Any) -> None:
    raise NotImplementedError
