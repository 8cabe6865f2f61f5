"""Sites on Ray Serve, over HTTP: a cluster of this host."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import aiohttp
import numpy as np
import pytest
import ray
import torch

from polyrhythm.errors import CompositionError, RunError
from polyrhythm.serving import LatencyProfile, PlanningRules, ServingMachine, ServingSession
from polyrhythm.serving.control import ControlRules
from polyrhythm.serving.server.control_loop import ServedSite, ServingControl
from polyrhythm.serving.server.gateway import GatewayRules
from polyrhythm.serving.server.open_loop import load_target, offer, schedule
from polyrhythm.serving.server.ray_site import RayServe, RaySite
from polyrhythm.serving.server.served_model import EmulatedModel, InputForm, ServedModel, TorchServed
from polyrhythm.serving.simulation import OfferedLoad
from polyrhythm.serving.simulation.arrivals import PoissonArrivals

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`"),  # Ray Serve 2.60 before pydantic 2.14
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:ray"),
]
FORM = InputForm((4,))
SLOW = LatencyProfile("slow", "box", tuple(0.3 + 0.01 * batch for batch in range(1, 9)), (1,) * 8)
DOUBLE = LatencyProfile("double", "box", (0.02,) * 8, (1,) * 8)
MACHINES = tuple(ServingMachine(f"box-{index}", "box", 10**9) for index in range(2))
SESSIONS = (ServingSession("doubled", "double", 2.0, 20.0), ServingSession("slowly", "slow", 3.0, 5.0))
SERVED = ServedSite(SESSIONS, MACHINES, (DOUBLE, SLOW), PlanningRules(network=0.1), ControlRules(beacon=0.5, epoch=20.0, shortest=5.0))
PORT = 8217


def double() -> torch.nn.Module:
    layer = torch.nn.Linear(4, 4, bias=False)
    layer.weight.data = 2 * torch.eye(4)
    return layer


MODELS: dict[tuple[str, str], ServedModel] = {("double", "box"): TorchServed(double, FORM), ("slow", "box"): EmulatedModel(SLOW, FORM)}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, resources={f"machine:{each.name}": 1.0 for each in MACHINES}, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def site() -> Iterator[RaySite]:
    made = RayServe(port=PORT, gateway=GatewayRules(network=0.1)).deploy(SERVED, MODELS, SERVED.plan({}, frozenset(), None))
    yield made
    made.drain(5)


def posted(url: str, session: str, body: bytes, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    async def main() -> tuple[int, Mapping[str, str], bytes]:
        kinds = {"Content-Type": "application/octet-stream"} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v2/models/{session}/infer", data=body, headers=kinds) as response:
            return response.status, response.headers, await response.read()

    return asyncio.run(main())


def test_a_model_answers_what_it_computes_as_bytes_and_as_json(site: RaySite) -> None:
    given = np.array([1, 2, 3, 4], np.float32)
    status, headers, body = posted(site.url, "doubled", given.tobytes())
    assert (status, headers["X-Outcome"], headers["X-Shape"]) == (200, "ok", "4")
    assert np.frombuffer(body, np.float32).tolist() == [2, 4, 6, 8]
    text = b'{"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}'
    status, _, body = posted(site.url, "doubled", text, Content_Type="application/json")
    assert status == 200
    assert b'"data":[2.0,4.0,6.0,8.0]' in body


def test_what_cannot_be_computed_in_time_is_said_at_once(site: RaySite) -> None:
    begun = time.monotonic()
    status, headers, _ = posted(site.url, "slowly", bytes(16), X_Deadline_Ms="300")  # 100 ms of it are for the way
    assert time.monotonic() - begun < 1.0
    assert (status, headers["X-Outcome"], headers["Retry-After"]) == (503, "dropped: deadline", "1")


def test_wrong_requests_are_sentences(site: RaySite) -> None:
    assert posted(site.url, "nothing", b"")[0] == 400
    status, _, body = posted(site.url, "doubled", bytes(12))
    assert status == 400
    assert b"has 12 bytes, and the input has 16" in body
    assert posted(site.url, "doubled", bytes(16), X_Deadline_Ms="soon")[0] == 400


def test_a_session_over_its_plan_is_told_when_to_come_again(site: RaySite) -> None:
    async def main() -> list[tuple[int, str]]:
        async with aiohttp.ClientSession() as client:

            async def one() -> tuple[int, str]:
                async with client.post(f"{site.url}/v2/models/slowly/infer", data=bytes(16), headers=kinds) as response:
                    return response.status, response.headers.get("Retry-After", "")

            kinds = {"Content-Type": "application/octet-stream"}
            return await asyncio.gather(*(one() for _ in range(60)))

    found = Counter(asyncio.run(main()))
    assert found[429, "1"] + found[429, "2"] + found[429, "3"] > 20
    assert found[200, ""] >= 4


def test_a_client_that_hangs_up_is_counted_as_gone(site: RaySite) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession() as client:
            kinds = {"Content-Type": "application/octet-stream"}
            asked = [
                asyncio.ensure_future(client.post(f"{site.url}/v2/models/slowly/infer", data=bytes(16), headers=kinds)) for _ in range(4)
            ]
            await asyncio.sleep(0.2)
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    time.sleep(2.0)  # the bucket of the session fills again
    asyncio.run(main())
    until = time.monotonic() + 10
    while ("slowly", "client gone") not in site.outcomes() and time.monotonic() < until:
        time.sleep(0.2)
        site.beacons()
    assert site.outcomes()["slowly", "client gone"] >= 1


def test_a_new_plan_is_followed_by_the_same_processes(site: RaySite) -> None:
    site.beacons()
    before = {name: sign.pid for name, sign in site.signs.items()}
    first = SERVED.plan({}, frozenset(), None)
    used = first.machines[0].machine.name
    moved = SERVED.plan({}, frozenset([used]), None)
    assert list(site.install({each.machine.name: each for each in moved.machines})) == []
    assert list(site.follow(moved)) == []
    assert posted(site.url, "doubled", bytes(16))[0] == 200
    site.beacons()
    assert {name: sign.pid for name, sign in site.signs.items()} == before
    assert site.signs[moved.machines[0].machine.name].plan == moved.machines[0]
    assert list(site.follow(first)) == []


def test_metrics_are_there_for_prometheus(site: RaySite) -> None:
    async def main() -> str:
        port = ray.nodes()[0]["MetricsExportPort"]
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/metrics") as response:
            return await response.text()

    posted(site.url, "doubled", bytes(16))
    until, text = time.monotonic() + 60, ""
    while (
        not all(name in text for name in ("polyrhythm_serving_seconds_bucket", "polyrhythm_serving_waiting")) and time.monotonic() < until
    ):
        site.beacons()
        time.sleep(1.0)
        text = asyncio.run(main())
    lines = [line for line in text.splitlines() if line.startswith("ray_polyrhythm_serving_requests")]
    assert any('session="doubled"' in line and 'outcome="ok"' in line for line in lines)
    assert any(line.startswith("ray_polyrhythm_serving_waiting") for line in text.splitlines())


def test_a_killed_machine_loses_what_it_had_and_each_request_has_one_outcome(site: RaySite) -> None:
    first = SERVED.plan({}, frozenset(), None)
    control = ServingControl(site, SERVED, first, time.monotonic)
    site.beacons()
    before = sum(site.outcomes().values())
    used = first.machines[0].machine.name
    pid = site.signs[used].pid
    load = OfferedLoad({"doubled": PoissonArrivals(10.0)}, 12.0, seed=1)
    due = schedule(load)

    async def main() -> list[tuple[float, int, str]]:
        asked = asyncio.ensure_future(offer(site.url, due, {"doubled": load_target(np.zeros(4, np.float32), 2.0)}))
        begun = time.monotonic()
        while not asked.done():
            await asyncio.sleep(0.5)
            if time.monotonic() - begun > 2.0 and not killed:
                os.kill(pid, signal.SIGKILL)
                killed.append(time.monotonic() - begun)
            await asyncio.to_thread(control.turn)
        return [(each.due, each.status, each.outcome) for each in asked.result()]

    killed: list[float] = []
    found = asyncio.run(main())
    control.close()
    site.beacons()
    assert len(found) == len(due)
    assert all(status in (200, 429, 503) for _, status, _ in found), Counter(found)
    assert sum(site.outcomes().values()) - before == len(due)
    late = [status for at, status, _ in found if at > killed[0] + 5.0]
    assert late.count(200) >= 0.95 * len(late)
    until = time.monotonic() + 60
    while site.signs[used].pid == pid and time.monotonic() < until:
        time.sleep(0.5)
        site.beacons()
    assert site.signs[used].pid != pid  # Ray Serve has started it again, and it is heard


def test_a_cluster_without_the_machine_says_how_to_start_it() -> None:
    other = replace(SERVED, machines=(ServingMachine("desk", "box", 10**9),))
    with pytest.raises(CompositionError, match="machine:desk"):
        RayServe(port=PORT, name="other").deploy(other, MODELS, other.plan({}, frozenset(), None))


def broken() -> torch.nn.Module:
    raise FileNotFoundError("weights.safetensors is not here")


def test_a_model_that_cannot_be_loaded_says_why(site: RaySite) -> None:
    """It takes the place of the site of the other tests, which is drained before."""
    site.drain(5)
    engine = RayServe(port=PORT, name="broken", startup=20.0)
    with pytest.raises(RunError, match="is not here"):
        engine.deploy(SERVED, {**MODELS, ("double", "box"): TorchServed(broken, FORM)}, SERVED.plan({}, frozenset(), None))
