"""A family of models on Ray Serve, over HTTP: each answer is that of its own variant, and the entrance of a server is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest
import ray
import torch

from polyrhythm.serving import LatencyProfile, PlanningRules, ServingMachine, plan_families
from polyrhythm.serving.server.control_loop import ServedSite
from polyrhythm.serving.server.entrance_profile import measured_entrance
from polyrhythm.serving.server.gateway import GatewayRules
from polyrhythm.serving.server.model_sources import served_models
from polyrhythm.serving.server.ray_site import RayServe
from polyrhythm.serving.server.served_model import InputForm
from polyrhythm.serving.serving_files import read_models

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`"),  # Ray Serve 2.60 before pydantic 2.14
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:ray"),
]
PORT = 8219
MACHINES = (ServingMachine("box", "box", 10**9),)
MODELS = """
families = [{name = "photos", variants = ["cats", "dogs"]}]
[[models]]
name = "cats"
torch = "photos.py:cats"
input = [6]
[[models]]
name = "dogs"
torch = "photos.py:dogs"
input = [6]
[[sessions]]
name = "of-cats"
model = "cats"
slo = "4 s"
rate = 5
[[sessions]]
name = "of-dogs"
model = "dogs"
slo = "4 s"
rate = 5
"""
MODULE = """
import torch

def made(seed):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 16), torch.nn.ReLU()]
    torch.manual_seed(seed)
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 3))

def cats():
    return made(1)

def dogs():
    return made(2)
"""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, resources={"machine:box": 1.0}, log_to_driver=False)
    yield
    ray.shutdown()


def line(model: str, seconds: float) -> LatencyProfile:
    return LatencyProfile(model, "box", (seconds,) * 8, (1,) * 8)


def test_each_answer_over_http_is_that_of_its_own_variant(tmp_path: Path) -> None:
    (tmp_path / "photos.py").write_text(MODULE)
    (tmp_path / "models.toml").write_text(MODELS)
    given = read_models(tmp_path / "models.toml")
    # apart they need a second machine, which is not there
    profiles = [line("cats", 0.9), line("dogs", 0.9), line("photos/prefix", 0.5), line("photos/cats", 0.01), line("photos/dogs", 0.01)]
    rules = PlanningRules(network=0.2)
    chosen = plan_families(given.served(), MACHINES, profiles, given.prefix_families(profiles), rules)
    assert [each.used for each in chosen.weighed] == [True]
    served = ServedSite(chosen.sessions, MACHINES, chosen.profiles, rules, members=chosen.members)
    models = served_models(given, tmp_path, ["box"], profiles)
    site = RayServe(port=PORT, gateway=GatewayRules(network=0.2)).deploy(served, models, served.plan({}, frozenset(), None))
    draws = np.random.default_rng(1)
    asked = [(("cats", "dogs")[index % 2], draws.normal(size=6).astype(np.float32)) for index in range(12)]

    async def main() -> list[tuple[int, bytes]]:
        async with aiohttp.ClientSession() as client:

            async def one(name: str, value: np.ndarray) -> tuple[int, bytes]:
                kinds = {"Content-Type": "application/octet-stream"}
                async with client.post(f"{site.url}/v2/models/of-{name}/infer", data=value.tobytes(), headers=kinds) as response:
                    return response.status, await response.read()

            return await asyncio.gather(*(one(*each) for each in asked))

    try:
        answers = asyncio.run(main())
        site.beacons()
        assert site.outcomes() == {("of-cats", "ok"): 6, ("of-dogs", "ok"): 6}
    finally:
        site.drain(5)
    alone = {name: models[name, "box"].load() for name in ("cats", "dogs")}
    for (status, body), (name, value) in zip(answers, asked, strict=True):
        assert status == 200
        assert np.abs(np.frombuffer(body, np.float32) - alone[name]([value])[0]).max() <= 1e-6
    assert torch.get_num_threads() == 1


def test_the_entrance_is_measured_in_seconds_for_each_request() -> None:
    found = measured_entrance(RayServe(port=PORT, options={"echo": {}}), [], InputForm((6,)), seconds=1.0)
    assert 1e-4 < found < 1.0
