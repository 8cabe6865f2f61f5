"""The seconds that the entrance of a real server takes for each request, measured: proxy, gateway and handles together, at their limit."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

from polyrhythm.core.extras import needed
from polyrhythm.errors import RunError
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.server.control_loop import ServedSite
from polyrhythm.serving.server.gateway import GatewayRules
from polyrhythm.serving.server.open_loop import LoadTarget, load_target
from polyrhythm.serving.server.ray_site import RayServe
from polyrhythm.serving.server.served_model import EmulatedModel, InputForm, ServedModel
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan, ServingPlan
from polyrhythm.serving.sessions import ServingMachine, ServingSession
from polyrhythm.serving.token_bucket import AdmitAll

_CLIENTS = 24
"""Requests under way at once: enough that the entrance never waits for a client."""
_WARM = 1.0
_BATCH = 64


def measured_entrance(engine: RayServe, models: Sequence[ServedModel], form: InputForm, seconds: float = 8.0) -> float:
    """The seconds per request of a site of one machine whose model takes a millisecond a batch, asked by as many clients as it bears.

    Each of `models` is computed in a thread meanwhile, as machines of this host would: what they take of its cores is not left to the
    entrance. The clients are a process of this host, and take their part of it too.
    """
    profile = LatencyProfile("echo", "here", (0.001,) * _BATCH, (1,) * _BATCH)
    machine, session = ServingMachine("echo", "here", 10**9), ServingSession("echo", "echo", 30.0, 1.0)
    plan = ServingPlan((MachinePlan(machine, 0.001, (DutySlot("echo", "echo", 1.0, _BATCH, 30.0, profile),)),))
    open_to_all = RayServe(engine.address, engine.host, engine.port, "entrance", engine.options, gateway=GatewayRules(admission=AdmitAll()))
    served = ServedSite((session,), (machine,), (profile,))
    site = open_to_all.deploy(served, {("echo", "here"): EmulatedModel(profile, form)}, plan)
    try:
        with _busy(models):
            return seconds_each(f"{site.url}/v2/models/echo/infer", load_target(form.example(), 30.0), seconds)
    finally:
        site.drain(5.0)


def seconds_each(url: str, target: LoadTarget, seconds: float, clients: int = _CLIENTS) -> float:
    """The seconds per answer of a server that `clients` ask again as soon as they have one, from a process of their own.

    Raises RunError where that process dies; what it says is on its standard error.
    """
    here, there = multiprocessing.get_context("spawn").Pipe()
    asking = multiprocessing.get_context("spawn").Process(target=_ask, args=(url, target, seconds, clients, there))
    asking.start()
    there.close()  # else the end of the process would not be seen
    try:
        found: float = here.recv()
    except EOFError as problem:
        raise RunError(f"The process that asks {url} has ended without a result: see what it says above.") from problem
    finally:
        asking.join()
    return found


def _ask(url: str, target: LoadTarget, seconds: float, clients: int, answer: Connection) -> None:
    answer.send(asyncio.run(_closed_loop(url, target, seconds, clients)))


async def _closed_loop(url: str, target: LoadTarget, seconds: float, clients: int) -> float:
    http = needed("aiohttp", "serve")
    moments: list[float] = []
    async with http.ClientSession(connector=http.TCPConnector(limit=0)) as session:
        begun = time.monotonic()

        async def ask() -> None:
            while time.monotonic() - begun < _WARM + seconds:
                async with session.post(url, data=target.body, headers=target.headers) as response:
                    await response.read()
                moments.append(time.monotonic() - begun)

        await asyncio.gather(*(ask() for _ in range(clients)))
    counted = sum(_WARM <= each < _WARM + seconds for each in moments)
    return seconds / max(1, counted)


@contextmanager
def _busy(models: Sequence[ServedModel]) -> Iterator[None]:
    """Compute each model over and over, in batches of 8, in a thread of its own."""
    over = threading.Event()

    def compute(model: ServedModel) -> None:
        loaded, batch = model.load(), [model.form.example()] * 8
        while not over.is_set():
            loaded(batch)

    threads = [threading.Thread(target=compute, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
