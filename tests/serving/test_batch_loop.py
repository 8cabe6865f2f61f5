"""The batch loop of a server, in virtual time: the decisions of the simulator's queue, on the clock of asyncio."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sites import machine_of, slot_of, straight
from virtual_loop import in_virtual_time

from polyrhythm.serving import Dropped, DutySlot, DutyTurns, EarlyDrop, MachinePlan, Ok
from polyrhythm.serving.server.answers import MOVED, SHUTDOWN, Failed, ServerOutcome
from polyrhythm.serving.server.batch_loop import BatchLoop

FAST = slot_of(straight("fast", 0.001, 0.009), 4, 0.1, "fast")  # 13 ms for its batch of 4
SLOW = slot_of(straight("slow", 0.01, 0.01), 4, 0.2, "slow")  # 50 ms


class Machine:
    """A machine that takes the time of its profile, and keeps what it computed."""

    def __init__(self, *slots: DutySlot) -> None:
        self.batches: list[tuple[float, str, list[Any]]] = []
        self.loop = BatchLoop(machine_of(*slots), DutyTurns(EarlyDrop()), self._run)
        self.answers: list[tuple[float, Any, ServerOutcome]] = []

    async def _run(self, slot: DutySlot, payloads: Sequence[Any]) -> Sequence[Any]:
        self.batches.append((asyncio.get_running_loop().time(), slot.session, list(payloads)))
        await asyncio.sleep(slot.profile.latency(len(payloads)))
        if "poison" in payloads:
            raise ValueError("no such word")
        return [f"{payload}!" for payload in payloads]

    async def ask(self, session: str, payload: Any, patience: float, at: float = 0.0) -> ServerOutcome:
        await asyncio.sleep(at)
        answer = await self.loop.answer(session, payload, patience)
        self.answers.append((asyncio.get_running_loop().time(), payload, answer))
        return answer


def test_what_waits_when_a_batch_ends_is_the_next_one() -> None:
    async def main() -> None:
        machine = Machine(FAST)
        answers = await asyncio.gather(*(machine.ask("fast", index, 1.0, 0.001 * index) for index in range(7)))
        assert [len(payloads) for _, _, payloads in machine.batches] == [1, 4, 2]
        assert [answer.result for answer in answers if isinstance(answer, Ok)] == [f"{index}!" for index in range(7)]

    in_virtual_time(main())


def test_a_drop_is_answered_at_the_moment_of_its_decision_while_a_batch_runs() -> None:
    async def main() -> None:
        machine = Machine(SLOW)
        await asyncio.gather(*(machine.ask("slow", index, 1.0) for index in range(5)), machine.ask("slow", "late", 0.045, 0.021))
        (said, _, answer), *_ = [each for each in machine.answers if each[1] == "late"]
        assert isinstance(answer, Dropped)
        assert answer.reason == "deadline"
        assert said == answer.finished
        assert said < 0.021 + 0.045  # before its deadline: it could not begin any more
        assert all("late" not in payloads for _, _, payloads in machine.batches)

    in_virtual_time(main())


def test_a_client_that_has_gone_is_in_no_later_batch() -> None:
    async def main() -> None:
        machine = Machine(SLOW)
        tasks = [asyncio.create_task(machine.ask("slow", index, 1.0)) for index in range(6)]
        await asyncio.sleep(0.01)
        tasks[5].cancel()
        await asyncio.gather(*tasks[:5])
        assert [5 in payloads for _, _, payloads in machine.batches] == [False] * len(machine.batches)

    in_virtual_time(main())


def test_sessions_take_turns() -> None:
    async def main() -> None:
        machine = Machine(FAST, SLOW)
        asked = [machine.ask(session, index, 10.0) for session in ("fast", "slow") for index in range(8)]
        await asyncio.gather(*asked)
        assert [session for _, session, _ in machine.batches][1:] == ["slow", "fast", "slow", "fast"] + ["slow"] * (
            len(machine.batches) - 5
        )

    in_virtual_time(main())


def test_a_model_that_raises_fails_its_batch_and_no_other() -> None:
    async def main() -> None:
        machine = Machine(FAST)
        first, *_, second = await asyncio.gather(
            machine.ask("fast", "poison", 1.0), *(machine.ask("fast", i, 1.0, 0.005) for i in range(2))
        )
        assert isinstance(first, Failed)
        assert first.problem == "ValueError: no such word"
        assert isinstance(second, Ok)

    in_virtual_time(main())


def test_a_new_plan_gives_back_the_requests_of_sessions_that_it_has_not() -> None:
    async def main() -> None:
        machine = Machine(FAST, SLOW)
        asked = asyncio.gather(*(machine.ask(session, index, 10.0) for session in ("fast", "slow") for index in range(5)))
        await asyncio.sleep(0.001)
        machine.loop.install(machine_of(FAST))
        outcomes = Counter(answer.reason if isinstance(answer, Dropped) else "ok" for answer in await asked)
        assert outcomes == {MOVED: 5, "ok": 5}
        assert await machine.loop.answer("slow", 0, 1.0) == Dropped(asyncio.get_running_loop().time(), MOVED)

    in_virtual_time(main())


def test_draining_answers_what_was_taken_and_takes_no_more() -> None:
    async def main() -> None:
        machine = Machine(SLOW)
        asked = asyncio.gather(*(machine.ask("slow", index, 10.0) for index in range(6)))
        await asyncio.sleep(0.001)
        ended = asyncio.create_task(machine.loop.drain())
        await asyncio.sleep(0.001)
        refused = await machine.loop.answer("slow", 0, 10.0)
        assert isinstance(refused, Dropped)
        assert refused.reason == SHUTDOWN
        await ended
        assert all(isinstance(answer, Ok) for answer in await asked)

    in_virtual_time(main())


def test_a_machine_without_work_is_drained_at_once() -> None:
    in_virtual_time(Machine(FAST).loop.drain())


requests = st.tuples(
    st.sampled_from(["fast", "slow"]), st.floats(0.0, 0.5), st.floats(0.001, 0.4), st.none() | st.floats(0.0, 0.3), st.booleans()
)


@settings(max_examples=40, deadline=None)
@given(st.lists(requests, max_size=60), st.none() | st.floats(0.0, 0.5))
def test_every_request_has_exactly_one_outcome_and_is_in_one_batch_at_most(
    made: list[tuple[str, float, float, float | None, bool]], change: float | None
) -> None:
    """Whatever comes, leaves, expires or is moved by another plan."""

    async def main() -> None:
        machine = Machine(FAST, SLOW)
        tasks = [asyncio.create_task(machine.ask(session, index, patience, at)) for index, (session, at, patience, *_) in enumerate(made)]
        clock = asyncio.get_running_loop()
        for task, (_, at, _, leaves, _) in zip(tasks, made, strict=True):
            if leaves is not None:
                clock.call_later(at + leaves, task.cancel)
        if change is not None:
            plan: MachinePlan = machine_of(FAST)
            clock.call_later(change, machine.loop.install, plan)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, Ok | Dropped | asyncio.CancelledError) for each in ended)
        answered = [payload for _, payload, _ in machine.answers]
        assert len(answered) == len(set(answered))
        assert len(answered) + sum(isinstance(each, asyncio.CancelledError) for each in ended) == len(made)
        computed = Counter(payload for _, _, payloads in machine.batches for payload in payloads)
        assert not computed or max(computed.values()) == 1
        assert {payload for _, payload, answer in machine.answers if isinstance(answer, Ok)} <= set(computed)
        assert not any(payload in computed for _, payload, answer in machine.answers if isinstance(answer, Dropped))
        assert all(answer.finished <= said for said, _, answer in machine.answers)
        await machine.loop.drain()

    in_virtual_time(main())
