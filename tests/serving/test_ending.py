"""The end of a site while a plan is being installed: nothing waits for what never comes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest
from sites import machines, straight

from polyrhythm.errors import RunError
from polyrhythm.serving import MachinePlan, ServingPlan, ServingSession
from polyrhythm.serving.control import Beacon, ControlRules
from polyrhythm.serving.server.control_loop import ServedSite, ServingControl
from polyrhythm.serving.server.handle_calls import HandleCalls
from polyrhythm.tools.cli.serve_run import controlled

SITE = ServedSite(
    (ServingSession("a", "a", 0.1, 100.0),), tuple(machines(4)), (straight("a", 0.001, 0.025),), control=ControlRules(1.0, 20.0, 5.0)
)


class Replica:
    """A handle of a replica as Ray Serve's are, whose method takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = threading.Event()
        self.reconfigure = self

    async def remote(self, *_: Any) -> str:
        self.asked.set()
        await asyncio.sleep(self.seconds)
        return "done"


class Slow:
    """A site whose machines take `seconds` to install a plan, and of which one is silent."""

    def __init__(self, seconds: float) -> None:
        self.replica, self.calls = Replica(seconds), HandleCalls()
        self.events: list[str] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def beacons(self) -> Sequence[Beacon]:
        return [Beacon(each.name, self.now) for each in SITE.machines[1:]]

    def follow(self, plan: ServingPlan) -> Sequence[str]:
        return []

    def install(self, plans: Mapping[str, MachinePlan]) -> Sequence[str]:
        made = self.calls.all(dict.fromkeys(plans, (self.replica, "reconfigure", ())), 60.0)
        self.events += [f"{name} {said}" for name, said in made.items()]
        return []


def interrupted(site: Slow, loop: ServingControl) -> None:
    """Watch until a plan is being installed; then Ctrl-C."""
    while not site.replica.asked.is_set():
        site.now += 1.0
        loop.turn()
        time.sleep(0.001)
    raise KeyboardInterrupt


def test_an_interrupted_installation_ends_before_the_site_is_drained() -> None:
    site = Slow(0.2)
    loop = ServingControl(site, SITE, SITE.plan({}, frozenset(), None), site.clock)
    controlled(loop, lambda: interrupted(site, loop))
    assert site.events[0].endswith(" done")
    assert loop.changes[-1].installed
    site.calls.close()


def test_a_second_interruption_gives_the_installation_up() -> None:
    site = Slow(1000.0)
    loop = ServingControl(site, SITE, SITE.plan({}, frozenset(), None), site.clock)
    with pytest.raises(KeyboardInterrupt):
        interrupted(site, loop)
    site.calls.close()  # what drains the site does this at its end
    with pytest.raises(CancelledError):
        loop.close()
    assert site.events == []


def test_calls_that_are_waited_for_are_given_up_at_the_end_and_none_is_taken_after() -> None:
    calls, replica = HandleCalls(), Replica(1000.0)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(calls.all, {"a": (replica, "reconfigure", ())}, 1000.0)
        calls.begin((replica, "reconfigure", ()))
        assert replica.asked.wait(5)
        calls.close()
        calls.close()
        with pytest.raises(CancelledError):
            waiting.result(5)
    with pytest.raises(RunError, match="The site has ended"):
        calls.all({}, 1.0)
