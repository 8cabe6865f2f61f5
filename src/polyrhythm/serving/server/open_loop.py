"""An open-loop load over HTTP: every request is sent at its moment, whatever has become of those before, and measured from it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyrhythm.core.extras import needed
from polyrhythm.core.streams import stream
from polyrhythm.serving.server.wire import BYTES
from polyrhythm.serving.simulation import OfferedLoad

_LATEST = 30.0
"""Seconds after which a request without an answer is given up."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Requests of a session: the bytes of an input, and the seconds from its due moment in which an answer is good."""

    body: bytes
    slo: float
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OfferedRequest:
    """A request that was due `due` seconds after the begin, sent and answered at these; `status` is 0 where no answer came.

    `outcome` is the server's word for it, and `decided` the seconds from its decision to the answer's arrival, by clocks of one host; 0
    from a server that does not say.
    """

    session: str
    due: float
    sent: float
    ended: float
    status: int
    outcome: str
    decided: float

    @property
    def latency(self) -> float:
        """Seconds from the due moment to the answer."""
        return self.ended - self.due


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of a session's requests: counts, and seconds from the due moment of those that the server computed, by percentile.

    `late_sends` is the 99th percentile of how late the generator was; `drop_answers` that of the seconds from the decision to give up to
    the client's knowledge. Good is what came with status 200 within the objective.
    """

    session: str
    offered: int
    good: int
    outcomes: Mapping[str, int]
    seconds: Mapping[str, float]
    late_sends: float
    drop_answers: float

    @property
    def good_rate(self) -> float:
        """The part of all requests that was good; 1 where none came."""
        return self.good / self.offered if self.offered else 1.0


def schedule(load: OfferedLoad) -> list[tuple[float, str]]:
    """The moments of a load with their sessions, in order: those that the simulator plays."""
    return sorted(
        (moment, session)
        for session, process in sorted(load.arrivals.items())
        for moment in process.times(load.seconds, stream(load.seed, "serving", "arrivals", session))
    )


async def offer(url: str, due: Sequence[tuple[float, str]], targets: Mapping[str, LoadTarget]) -> list[OfferedRequest]:
    """Send each request at its moment, and wait for all answers."""
    http = needed("aiohttp", "serve")
    connector = http.TCPConnector(limit=0, keepalive_timeout=60)
    async with http.ClientSession(connector=connector, timeout=http.ClientTimeout(total=_LATEST)) as client:
        gc.collect()
        gc.freeze()  # a collection of all objects would hold up the sends
        loop = asyncio.get_running_loop()
        sender = _Sender(client, (http.ClientError, TimeoutError), url, loop.time() + 0.05)
        tasks = []
        for moment, session in due:
            wait = moment - sender.now()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(loop.create_task(sender.send(moment, session, targets[session])))
        found = await asyncio.gather(*tasks)
        gc.unfreeze()
        return list(found)


@dataclass(frozen=True, slots=True)
class _Sender:
    """A client of the server at `url`; moments count from `begun`, and `errors` are those of the library."""

    client: Any
    errors: tuple[type[BaseException], ...]
    url: str
    begun: float

    def now(self) -> float:
        return asyncio.get_running_loop().time() - self.begun

    async def send(self, due: float, session: str, target: LoadTarget) -> OfferedRequest:
        sent = self.now()
        try:
            async with self.client.post(f"{self.url}/v2/models/{session}/infer", data=target.body, headers=target.headers) as response:
                await response.read()
                status, headers = response.status, response.headers
        except self.errors as problem:
            return OfferedRequest(session, due, sent, self.now(), 0, type(problem).__name__, 0.0)
        decided = time.time() - float(headers["X-Decided"]) if "X-Decided" in headers else 0.0
        return OfferedRequest(session, due, sent, self.now(), status, headers.get("X-Outcome", str(status)), decided)


def reports(requests: Sequence[OfferedRequest], targets: Mapping[str, LoadTarget], since: float = 0.0) -> dict[str, LoadReport]:
    """The reports of all sessions, of requests that were due from `since` on."""
    names = sorted({each.session for each in requests})
    return {name: _report(name, [each for each in requests if each.session == name and each.due >= since], targets[name]) for name in names}


def load_target(given: np.ndarray, slo: float, deadline: float | None = None) -> LoadTarget:
    """Requests with that input as bytes; `deadline` is said to the server, else it takes its session's objective."""
    headers = {"Content-Type": BYTES} | ({} if deadline is None else {"X-Deadline-Ms": f"{deadline * 1e3:g}"})
    return LoadTarget(np.ascontiguousarray(given).tobytes(), slo, headers)


def _report(session: str, requests: Sequence[OfferedRequest], target: LoadTarget) -> LoadReport:
    outcomes: dict[str, int] = {}
    for each in requests:
        outcomes[each.outcome] = outcomes.get(each.outcome, 0) + 1
    computed = [each.latency for each in requests if each.status == 200]
    dropped = [each.decided for each in requests if each.outcome.startswith("dropped")]
    good = sum(latency <= target.slo for latency in computed)
    seconds = {f"p{percent}": _percentile(computed, percent) for percent in (50, 95, 99)}
    late = _percentile([each.sent - each.due for each in requests], 99)
    return LoadReport(session, len(requests), good, dict(sorted(outcomes.items())), seconds, late, _percentile(dropped, 99))


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else 0.0
