"""What the scenarios of serving_http.py share: profiles, the rival, the generator in a process of its own, and figures."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import cloudpickle
import msgspec
import numpy as np
from ray import serve

from polyrhythm.serving import DutySlot, LatencyProfile, MachinePlan, ServingMachine, ServingPlan, ServingSession
from polyrhythm.serving.server.open_loop import LoadTarget, OfferedRequest, load_target, offer
from polyrhythm.serving.server.served_model import InputForm, ServedModel

MEMORY = 10**10
START = 0.05
"""The seconds after which the generator begins."""
FORM = InputForm((16,))


def straight(name: str, slope: float, start: float, largest: int = 25, loading: float = 0.0) -> LatencyProfile:
    """l(b) = slope b + start."""
    seconds = tuple(slope * batch + start for batch in range(1, largest + 1))
    return LatencyProfile(name, "box", seconds, (1,) * largest, loading=loading)


def best(profile: LatencyProfile, slo: float) -> tuple[int, float]:
    """The largest batch with 2 l(b) within the objective, and its requests per second: the optimum of one machine and one session."""
    batch = max(1, profile.largest_within(slo / 2))
    return batch, profile.throughput(batch)


def whole(machine: ServingMachine, session: ServingSession, profile: LatencyProfile, batch: int) -> ServingPlan:
    """The plan of one machine that has one session, in batches of that size."""
    slot = DutySlot(session.name, profile.model, profile.throughput(batch), batch, session.slo, profile)
    return ServingPlan((MachinePlan(machine, slot.seconds, (slot,)),))


@dataclass(frozen=True)
class Rival:
    """Ray Serve's own `@serve.batch` before the same model: its largest batch, its wait, and what may be in it before it refuses."""

    name: str
    batch: int
    wait: float
    ongoing: int = 1_000_000
    queued: int = -1

    def deploy(self, model: ServedModel) -> None:
        """Serve it at its own path."""
        made = serve.deployment(batched(self.batch, self.wait)).options(
            name=self.name, max_ongoing_requests=self.ongoing, max_queued_requests=self.queued, ray_actor_options={"num_cpus": 0}
        )
        quiet = {"enable_access_log": False, "log_level": "WARNING"}
        bound = made.bind(cloudpickle.dumps(model))
        serve.run(bound, name=self.name, route_prefix=f"/{self.name}", logging_config=quiet)


def batched(batch: int, wait: float) -> type[Any]:
    """A server as Ray Serve's documentation writes it; a batch is computed in a thread, as ours is."""

    class Batched:
        def __init__(self, model: bytes) -> None:
            from concurrent.futures import ThreadPoolExecutor

            self._compute = cloudpickle.loads(model).load()
            self._form = cloudpickle.loads(model).form
            self._thread = ThreadPoolExecutor(1)

        @serve.batch(max_batch_size=batch, batch_wait_timeout_s=wait)
        async def computed(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
            return list(await asyncio.get_running_loop().run_in_executor(self._thread, self._compute, inputs))

        async def __call__(self, request: Any) -> Any:
            from starlette.responses import Response

            given = np.frombuffer(await request.body(), self._form.dtype).reshape([each or -1 for each in self._form.shape])
            result = await self.computed(given)
            return Response(np.ascontiguousarray(result).tobytes(), media_type="application/octet-stream", headers={"X-Outcome": "ok"})

    return Batched


@dataclass(frozen=True)
class Generated:
    """The requests of a load, and the moment of its begin in seconds since 1970."""

    begun: float
    requests: list[OfferedRequest]


def generated(url: str, due: Sequence[tuple[float, str]], slos: Mapping[str, float], form: InputForm = FORM) -> list[OfferedRequest]:
    """The requests as a process of their own sends them, and what became of them."""
    return begun_and_generated(url, due, slos, form).requests


def begun_and_generated(url: str, due: Sequence[tuple[float, str]], slos: Mapping[str, float], form: InputForm = FORM) -> Generated:
    """The same, with the moment of the begin: the process takes a second or two to start."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.json"), Path(folder, "found.json")
        given.write_text(json.dumps({"url": url, "due": due, "slos": slos, "shape": form.shape, "dtype": form.dtype}))
        subprocess.run([sys.executable, __file__, str(given), str(found)], check=True)
        return msgspec.json.decode(found.read_bytes(), type=Generated)


def good(requests: Sequence[OfferedRequest], slos: Mapping[str, float], since: float = 0.0, until: float = 1e9) -> tuple[int, int]:
    """How many of the requests that were due in that time were answered within their objective, and how many there were."""
    own = [each for each in requests if since <= each.due < until]
    return sum(each.status == 200 and each.latency <= slos[each.session] for each in own), len(own)


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile; nan of nothing."""
    return float(np.percentile(values, percent)) if values else float("nan")


def targets(slos: Mapping[str, float], form: InputForm) -> dict[str, LoadTarget]:
    """Requests with zeros as input."""
    return {name: load_target(form.example(), slo) for name, slo in slos.items()}


if __name__ == "__main__":
    spec = json.loads(Path(sys.argv[1]).read_text())
    wanted = targets(spec["slos"], InputForm(tuple(spec["shape"]), spec["dtype"]))
    assert aiohttp.__version__  # imported before the clock starts
    begin = time.time() + START
    answered = asyncio.run(offer(spec["url"], [(moment, session) for moment, session in spec["due"]], wanted))
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(Generated(begin, answered)))
