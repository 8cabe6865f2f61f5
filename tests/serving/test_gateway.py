"""The gateway of a server, in virtual time: admission, routes, lost machines, and the simulator's outcomes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from served_in_virtual_time import VirtualServer
from sites import machines, straight
from virtual_loop import in_virtual_time

from polyrhythm.serving import Dropped, Ok, PlanningRules, Rejected, ServingSession, plan
from polyrhythm.serving.routing import LeastCompletionTime
from polyrhythm.serving.server.answers import Failed, ServerOutcome, kind_of
from polyrhythm.serving.server.gateway import Gateway, GatewayRules
from polyrhythm.serving.server.open_loop import schedule
from polyrhythm.serving.simulation import OfferedLoad, SimulatedSite, simulate_serving
from polyrhythm.serving.simulation.arrivals import BurstyArrivals, PoissonArrivals
from polyrhythm.serving.token_bucket import AdmissionRule, AdmitAll, AdmitPlanned

A, B = straight("a", 0.001, 0.025), straight("b", 0.002, 0.01)
SESSIONS = (ServingSession("a", "a", 0.12, 100.0), ServingSession("b", "b", 0.15, 30.0))
ONE, TWO = tuple(machines(1)), tuple(machines(2))
RULES = PlanningRules()


def served(count: int, rules: GatewayRules | None = None, rate: float = 1.0) -> VirtualServer:
    site = machines(count)
    sessions = [ServingSession(one.name, one.model, one.slo, one.rate * rate) for one in SESSIONS]
    made, _ = plan(sessions, site, (A, B), None, RULES)
    assert not made.unserved
    server = VirtualServer(site, SESSIONS, rules or GatewayRules())
    server.begin(made)
    return server


async def play(server: VirtualServer, due: list[tuple[float, str]]) -> list[ServerOutcome]:
    async def one(at: float, session: str) -> ServerOutcome:
        await asyncio.sleep(at)
        return await server.gateway.answer(session, None)

    return await asyncio.gather(*(one(at, session) for at, session in due))


@pytest.mark.parametrize("load", [0.7, 1.2, 2.0])
@pytest.mark.parametrize("admission", [None, AdmitAll()], ids=["planned", "all"])
def test_every_request_has_the_outcome_that_the_simulator_gives_it(load: float, admission: AdmitAll | None) -> None:
    """On one machine, where routes do not matter: the same requests are good, dropped and rejected, at the same moments."""
    offered = OfferedLoad({"a": PoissonArrivals(100 * load), "b": BurstyArrivals(30 * load)}, 4.0, seed=3)
    made, _ = plan(SESSIONS, ONE, (A, B), None, RULES)
    site = SimulatedSite(SESSIONS, ONE, (A, B), RULES, **({} if admission is None else {"admission": admission}))
    expected = [(kind_of(outcome), outcome.finished) for _, outcome in simulate_serving(site, offered, made).requests]

    async def main() -> list[tuple[str, float]]:
        server = VirtualServer(ONE, SESSIONS, GatewayRules() if admission is None else GatewayRules(admission=admission))
        server.begin(made)
        return [(kind_of(answer), answer.finished) for answer in await play(server, schedule(offered))]

    found = in_virtual_time(main())
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    assert [at for _, at in found] == pytest.approx([at for _, at in expected], abs=1e-6)


def test_requests_go_to_machines_by_the_weights_of_the_plan() -> None:
    async def main() -> None:
        server = served(6, rate=6.0)
        routes = dict(server.events[-1][1].routes["a"])
        assert len(routes) > 1
        load = OfferedLoad({"a": PoissonArrivals(500)}, 5.0, seed=1)
        answers = Counter(kind_of(answer) for answer in await play(server, schedule(load)))
        assert answers["ok"] >= 0.99 * sum(answers.values())
        for machine, weight in routes.items():
            assert server.sent[machine] / sum(answers.values()) == pytest.approx(weight / sum(routes.values()), abs=0.03)

    in_virtual_time(main())


def test_one_tenants_burst_costs_that_tenant() -> None:
    async def main() -> None:
        server = served(1)
        load = OfferedLoad({"a": PoissonArrivals(5 * 100), "b": PoissonArrivals(30)}, 6.0, seed=2)
        due = schedule(load)
        answers = await play(server, due)
        of_b = [answer for (_, session), answer in zip(due, answers, strict=True) if session == "b"]
        of_a = [answer for (_, session), answer in zip(due, answers, strict=True) if session == "a"]
        assert sum(isinstance(answer, Ok) for answer in of_b) >= 0.99 * len(of_b)
        assert all(answer.retry_after > 0 for answer in of_a if isinstance(answer, Rejected))
        assert sum(isinstance(answer, Ok) for answer in of_a) >= 0.95 * 6 * 100

    in_virtual_time(main())


def test_a_lost_machines_requests_are_answered_by_another_in_time_or_at_once_as_lost() -> None:
    async def main() -> None:
        server = served(2, GatewayRules(router=LeastCompletionTime(), admission=AdmitAll()))
        made = server.events[-1][1]
        both = list(made.machines)
        other = next(name for name in server.loops if name != both[0].machine.name)
        server.install({other: both[0].__class__(next(m for m in TWO if m.name == other), both[0].duty, both[0].slots)})
        server.follow(made.__class__((both[0], server.loops[other].plan)))
        asyncio.get_running_loop().call_later(1.0, server.dead.add, other)
        load = OfferedLoad({"a": PoissonArrivals(60)}, 3.0, seed=4)
        due = schedule(load)
        answers = await play(server, due)
        kinds = Counter(kind_of(answer) for answer in answers)
        assert kinds["ok"] >= 0.97 * len(due)
        assert all(isinstance(answer, Ok | Dropped) for answer in answers)
        assert len(answers) == len(due)

    in_virtual_time(main())


def test_a_drained_gateway_answers_what_it_has_and_refuses_the_rest() -> None:
    async def main() -> None:
        server = served(1)
        asked = [asyncio.create_task(server.gateway.answer("a", None)) for _ in range(5)]
        await asyncio.sleep(0.001)
        await asyncio.gather(server.gateway.drain(), asyncio.sleep(0))
        assert [kind_of(await each) for each in asked] == ["ok"] * 5
        assert kind_of(await server.gateway.answer("a", None)) == "dropped: shutdown"

    in_virtual_time(main())


def test_a_session_that_is_not_there_is_a_sentence() -> None:
    async def main() -> None:
        answer = await served(1).gateway.answer("c", None)
        assert isinstance(answer, Failed)
        assert answer.theirs
        assert answer.problem == "There is no session 'c' here: name one of a, b."

    in_virtual_time(main())


def test_a_shorter_deadline_than_the_objective_is_kept_or_given_up() -> None:
    async def main() -> None:
        server = served(1)
        answers = await asyncio.gather(*(server.gateway.answer("a", None, patience) for patience in (0.02, 0.05)))
        assert [kind_of(answer) for answer in answers] == ["dropped: deadline", "ok"]

    in_virtual_time(main())


def test_whatever_sending_raises_is_an_outcome_and_is_counted() -> None:
    async def main() -> None:
        async def send(machine: str, session: str, payload: object, patience: float) -> ServerOutcome:
            raise MemoryError("Traceback:\n  somewhere\nthe object store is full\n")

        gateway = Gateway(SESSIONS, send, GatewayRules(admission=AdmitAll()))
        gateway.follow(plan(SESSIONS, ONE, (A, B), None, RULES)[0])
        answer = await gateway.answer("a", None)
        assert isinstance(answer, Failed)
        assert not answer.theirs
        assert answer.problem == "MemoryError: the object store is full"
        beacon = gateway.beacon(0.0)
        assert (beacon.arrived, beacon.dropped) == ({"a": 1}, {"a": 1})
        await gateway.drain()

    in_virtual_time(main())


@pytest.mark.parametrize("admission", [AdmitPlanned(), AdmitAll()], ids=["planned", "all"])
def test_a_session_that_the_plan_cannot_serve_is_rejected_by_the_simulator_and_by_the_server(admission: AdmissionRule) -> None:
    made, _ = plan(SESSIONS[:1], ONE, (A, B), None, RULES)
    offered = OfferedLoad({"b": PoissonArrivals(30)}, 1.0, seed=3)
    site = SimulatedSite(SESSIONS, ONE, (A, B), RULES, admission=admission)
    expected = [outcome for _, outcome in simulate_serving(site, offered, made).requests]

    async def main() -> list[ServerOutcome]:
        server = VirtualServer(ONE, SESSIONS, GatewayRules(admission=admission))
        server.begin(made)
        return await play(server, schedule(offered))

    found = in_virtual_time(main())
    assert found == expected
    assert all(isinstance(each, Rejected) and each.retry_after == 1.0 for each in found)
