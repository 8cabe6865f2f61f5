"""A relay on the way from one joined worker to another, which changes numbers in flight."""

import time

import pytest
import torch
from attackers import Relay, negated
from ports import reserved_port

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.places import RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.core.processes.transport import connector
from polyrhythm.errors import TamperedError


async def no_service(port: Port, record: Recorder) -> None:
    return None


async def exchange(port: Port) -> float:
    """What the other has sent."""
    for rank in range(2):
        await port.send(f"worker/{rank}", Message("x", tensors=(torch.ones(50_000),)))
    total = 0.0
    for _ in range(2):
        delivery = await port.receive("x")
        assert delivery is not None
        total += float(delivery.message.tensors[0].sum())
    return total


@pytest.mark.parametrize("essential", [True, False], ids=["needed", "not needed"])
def test_both_workers_end_at_once_with_the_reason_and_neither_trains_on_what_was_changed(
    essential: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reserved_port() as port:
        job = Job(2, 0, lambda context: None, no_service, lambda name: essential)

        def program(context: WorkerContext) -> Message:
            monkeypatch.setenv("POLYRHYTHM_HOST_ID", context.port.name)
            rank, relay = rank_of(context.port.name), Relay()
            if rank == 0:
                direct = connector.open_socket
                connector.open_socket = lambda address, host: direct(relay.to(address), host)
            totals, began = [], time.monotonic()
            try:
                with enter(job, lambda event: None, RankEnvironment(rank, 2, RankZero(port=port))) as joined:
                    for _ in range(100):
                        totals.append(joined.context.perform(exchange(joined.context.port)))
                        if len(totals) == 3:
                            relay.change, began = negated, time.monotonic()
            except TamperedError as problem:
                return Message("ended", (time.monotonic() - began, *totals), str(problem))
            finally:
                relay.close()
            return Message("nobody noticed")

        results = Processes().execute(Job(2, 0, program, no_service, lambda name: True), lambda event: None).results
    for message in results.values():
        assert message is not None
        assert "A record from worker/0 was changed on the way" in message.text
        assert message.numbers[0] < 20
        assert set(message.numbers[1:]) == {100_000.0}
