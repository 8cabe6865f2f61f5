"""Serving over real HTTP on Ray Serve: ours beside its own `@serve.batch`, on loopback, with emulated devices and a model of PyTorch.

    RAY_SERVE_ENABLE_HA_PROXY=1 RAY_worker_niceness=0 python benchmarks/serving_http.py --json benchmarks/results/serving_http.json

Requests come from a process of their own, in an open loop, as Poisson's arrivals, and are measured from their due moments. The optimum is
b / l(b) of the largest batch b with 2 l(b) within the objective. `--only S6,S7` runs some of the scenarios, `--rounds` repeats the races.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from serving.parts import FORM, MEMORY, Rival, begun_and_generated, best, generated, good, percentile, straight, whole

from polyrhythm.serving import (
    DutyTurns,
    FirstInFirstOut,
    LatencyProfile,
    LeastCompletionTime,
    PlanningRules,
    PowerOfTwoChoices,
    ServingMachine,
    ServingPlan,
    ServingSession,
    plan,
)
from polyrhythm.serving.control import ControlRules
from polyrhythm.serving.server.control_loop import ServedSite, ServingControl
from polyrhythm.serving.server.entrance_profile import measured_entrance
from polyrhythm.serving.server.gateway import GatewayRules
from polyrhythm.serving.server.open_loop import schedule
from polyrhythm.serving.server.profiling import BatchTimes, timed_batches
from polyrhythm.serving.server.ray_site import RayServe, RaySite
from polyrhythm.serving.server.served_model import EmulatedModel, ServedModel, TorchServed
from polyrhythm.serving.simulation import OfferedLoad, SimulatedSite, simulate_serving
from polyrhythm.serving.simulation.arrivals import PoissonArrivals, SteppedArrivals
from polyrhythm.serving.token_bucket import AdmitAll

SITE = tuple(ServingMachine(f"box-{index}", "box", MEMORY) for index in range(4))
WAY = 0.06
"""Seconds that HTTP and Ray Serve may take of each request, there and back."""
RULES = PlanningRules(network=WAY, jitter=0.005)
SLOPE, START = 0.008, 0.1
PORT = 8321
EARLY = DutyTurns()
URL = f"http://127.0.0.1:{PORT}"


class Wide(torch.nn.Module):
    """Wide layers: a batch of one waits for memory, and larger ones compute while they wait."""

    def __init__(self, width: int = 3072, layers: int = 40) -> None:
        super().__init__()
        torch.manual_seed(0)
        middle = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(torch.nn.Linear(FORM.shape[0] or 1, width), *middle, torch.nn.Linear(width, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The ten scores."""
        return self.layers(x)  # type: ignore[no-any-return]


def begun(
    served: ServedSite, models: dict[tuple[str, str], ServedModel], first: ServingPlan, rules: GatewayRules, turns: DutyTurns = EARLY
) -> RaySite:
    """The site, once it answers."""
    site = RayServe(port=PORT, gateway=rules, turns=turns).deploy(served, models, first)
    generated(site.url, [(0.05 * index, one.name) for index, one in enumerate(list(served.sessions) * 10)], _slos(served.sessions))
    return site


def _slos(sessions: Sequence[ServingSession]) -> dict[str, float]:
    return {one.name: one.slo for one in sessions}


def _simulated(served: ServedSite, first: ServingPlan, load: OfferedLoad, admission: object) -> float:
    """The part of the same requests that the simulator answers in time."""
    own = {} if admission is None else {"admission": admission}
    site = SimulatedSite(served.sessions, served.machines, served.profiles, served.rules, **own)
    tallies = simulate_serving(site, load, first).tally().values()
    return sum(each.good for each in tallies) / sum(each.offered for each in tallies)


@dataclass(frozen=True)
class Profiles:
    """The usual seconds of a batch, by which the optimum is computed, and those that are promised: the 99th percentile."""

    usual: LatencyProfile
    promised: LatencyProfile


def race(name: str, model: ServedModel, profiles: Profiles, slo: float, rounds: int, entrance: float = 0.0) -> list[dict[str, Any]]:
    """Ours and `@serve.batch` by turns at 120 % of the optimum; the rival's wait and bound are tuned first."""
    profile = profiles.promised
    session = ServingSession("s", profile.model, slo, 1.0)
    batch, optimum = best(profiles.usual, slo)
    batch, factor = min(batch, max(1, profile.largest_within(slo / 2))), 1.2
    served = ServedSite((session,), SITE[:1], (profile,), replace(RULES, entrance=entrance))
    first = whole(SITE[0], session, profile, batch)
    slos, both = {"s": slo}, min(optimum, 1 / entrance) if entrance else optimum
    site = begun(served, {(profile.model, "box"): model}, first, GatewayRules(admission=AdmitAll(), network=WAY))
    wait = _tuned(model, batch, optimum, slos)
    Rival("plain", batch, wait).deploy(model)
    bound = _bounded(model, batch, wait, factor * optimum, slos)
    Rival("bounded", batch, wait, ongoing=bound, queued=1).deploy(model)
    paths = {"ours": URL, "@serve.batch": f"{URL}/plain", "@serve.batch, bounded": f"{URL}/bounded"}
    rows = []
    for turn in range(rounds):
        load = OfferedLoad({"s": PoissonArrivals(factor * optimum)}, 8.0, seed=turn)
        for who, url in paths.items():
            found = generated(url, schedule(load), slos)
            count, offered = good(found, slos)
            computed = [each.latency for each in found if each.status == 200]
            drops = [each.decided for each in found if each.outcome.startswith("dropped")]
            row = {"scenario": name, "who": who, "optimum": optimum, "batch": batch, "offered": offered / load.seconds}
            row |= {
                "good_of_optimum": count / load.seconds / optimum,
                "good_of_both": count / load.seconds / both,
                "good_of_offered": count / offered,
                "slo": slo,
            }
            row |= {"p99": percentile(computed, 99), "drop_p50": percentile(drops, 50), "drop_p99": percentile(drops, 99)}
            row |= {"late_sends": percentile([each.sent - each.due for each in found], 99), "outcomes": _counted(found)}
            if who == "ours":
                row["simulated"] = _simulated(served, first, load, AdmitAll())
            rows.append(row)
            print(row, flush=True)
            time.sleep(1.0)
    for each in ("plain", "bounded"):
        ray.serve.delete(each)
    site.drain(5)
    return rows


def _counted(found: Sequence[Any]) -> dict[str, int]:
    return {outcome: sum(each.outcome == outcome for each in found) for outcome in sorted({each.outcome for each in found})}


def _tuned(model: ServedModel, batch: int, optimum: float, slos: dict[str, float]) -> float:
    """The wait with which `@serve.batch` does most at 70 % of the optimum."""
    found = {}
    for wait in (0.02, 0.15, 0.3):
        Rival("tuned", batch, wait * slos["s"]).deploy(model)
        due = schedule(OfferedLoad({"s": PoissonArrivals(0.7 * optimum)}, 5.0, seed=9))
        found[wait] = good(generated(f"{URL}/tuned", due, slos), slos)[0]
        ray.serve.delete("tuned")
    print("wait of @serve.batch, in objectives:", found, flush=True)
    return slos["s"] * max(found, key=lambda wait: found[wait])


def _bounded(model: ServedModel, batch: int, wait: float, rate: float, slos: dict[str, float]) -> int:
    """The number of requests inside above which `@serve.batch` refuses, with which it does most at `rate`."""
    found = {}
    for inside in (batch, 3 * batch // 2, 2 * batch):
        Rival("tuned", batch, wait, ongoing=inside, queued=1).deploy(model)
        due = schedule(OfferedLoad({"s": PoissonArrivals(rate)}, 5.0, seed=9))
        found[inside] = good(generated(f"{URL}/tuned", due, slos), slos)[0]
        ray.serve.delete("tuned")
    print("bound of @serve.batch, in requests:", found, flush=True)
    return max(found, key=lambda inside: found[inside])


def s6(rounds: int) -> list[dict[str, Any]]:
    """An emulated device at 120 % of the optimum."""
    profile = straight("emulated", SLOPE, START)
    return race("S6", EmulatedModel(profile, FORM), Profiles(profile, profile), 0.6, rounds)


def beside_requests(measure: Callable[[], BatchTimes], rate: float = 80.0) -> BatchTimes:
    """Times that are measured while HTTP requests at `rate` are answered beside: what they take of the box is in them."""
    profile = straight("emulated", SLOPE, START)
    session = ServingSession("s", "emulated", 0.6, rate)
    served = ServedSite((session,), SITE[:1], (profile,), RULES)
    rules = GatewayRules(admission=AdmitAll(), network=WAY)
    site = begun(served, {("emulated", "box"): EmulatedModel(profile, FORM)}, whole(SITE[0], session, profile, 25), rules)
    over = threading.Event()

    def requests() -> None:
        while not over.is_set():
            generated(site.url, schedule(OfferedLoad({"s": PoissonArrivals(rate)}, 10.0)), {"s": 0.6})

    beside = threading.Thread(target=requests)
    beside.start()
    found = measure()
    over.set()
    beside.join()
    site.drain(5)
    return found


def s7(rounds: int) -> list[dict[str, Any]]:
    """A slow and a quick model of PyTorch."""
    return [*s7_of(40, rounds), *s7_of(16, rounds)]


def s7_of(layers: int, rounds: int) -> list[dict[str, Any]]:
    """A model of PyTorch, profiled beside requests: at 120 % of the optimum, and at 70 % of what is planned beside batches of one."""
    model = TorchServed(partial(Wide, 3072, layers), FORM)
    times = beside_requests(lambda: timed_batches(model, (1, 8, 16, 24, 32), repeats=12))
    profile, usual = times.profile("wide", "box"), times.profile("wide", "box", percentile=50)
    shown = {batch: (round(usual.latency(batch), 4), round(profile.latency(batch), 4)) for batch in (1, 8, 16, 32)}
    print("median and p99", shown, "l(8)/l(1) =", round(profile.latency(8) / profile.latency(1), 2), flush=True)
    slo = max(0.8, 2 * profile.latency(16) + 0.1)
    entrance = measured_entrance(RayServe(port=PORT, options={"echo": {}}), [model], FORM)
    rules = replace(RULES, entrance=entrance)
    planned, _ = best(profile, slo - RULES.network - RULES.jitter)
    capacity = min(profile.throughput(planned), rules.entrance_rate)
    print("the machine", profile.throughput(planned), "the entrance", 1 / entrance, "of it planned", rules.entrance_rate, flush=True)
    rows = race(f"S7 at 120 %, {layers} layers", model, Profiles(usual, profile), slo, rounds, entrance)
    session = ServingSession("s", "wide", slo, 1.0)
    served = ServedSite((session,), SITE[:1], (profile,), rules)
    for size in (planned, 1):
        first = whole(SITE[0], session, profile, size)
        site = begun(served, {("wide", "box"): model}, first, GatewayRules(admission=AdmitAll(), network=WAY))
        for turn in range(rounds):
            load = OfferedLoad({"s": PoissonArrivals(0.7 * capacity)}, 8.0, seed=turn)
            found = generated(URL, schedule(load), {"s": slo})
            count, offered = good(found, {"s": slo})
            row = {
                "scenario": f"S7 at 70 %, {layers} layers",
                "entrance": entrance,
                "planned": capacity,
                "who": f"batches of {size}",
                "offered": offered / 8,
                "good_of_offered": count / offered,
            }
            row |= {"good": count / 8, "slo": slo, "outcomes": _counted(found), "l8_of_l1": profile.latency(8) / profile.latency(1)}
            rows.append(row | ({"simulated": _simulated(served, first, load, AdmitAll())} if size > 1 else {}))
            print(rows[-1], flush=True)
        site.drain(5)
    return rows


def controlled(served: ServedSite, load: OfferedLoad, during: Callable[[RaySite, float], None] | None = None) -> dict[str, Any]:
    """A load on a site with its control loop; `during` is called in a thread when the load begins."""
    first = served.plan({}, frozenset(), None)
    models: dict[tuple[str, str], ServedModel] = {(each.model, "box"): EmulatedModel(each, FORM) for each in served.profiles}
    site = begun(served, models, first, GatewayRules(network=WAY))
    site.beacons()
    control, over = ServingControl(site, served, first, time.monotonic), threading.Event()
    begin = time.monotonic()

    def turns() -> None:
        while not over.wait(served.control.beacon):
            control.turn()

    threads = [threading.Thread(target=turns), *([threading.Thread(target=during, args=(site, begin))] if during else [])]
    for thread in threads:
        thread.start()
    found = begun_and_generated(URL, schedule(load), _slos(served.sessions))
    over.set()
    for thread in threads:
        thread.join()
    control.close()
    site.beacons()
    counted = dict(site.outcomes())
    changes = [(round(each.begun - begin, 2), round(each.ended - begin, 2), each.reason) for each in control.changes]
    site.drain(5)
    return {"requests": found.requests, "begun": found.begun, "changes": changes, "counted": counted, "first": first}


QUICK = ControlRules(beacon=0.5, epoch=6.0, shortest=2.0)


def s10(rounds: int) -> list[dict[str, Any]]:
    """A rate that trebles, and one that stays for ten epochs."""
    profile = straight("emulated", SLOPE, START, loading=0.5)
    session = ServingSession("s", "emulated", 0.6, 20.0)
    served = ServedSite((session,), SITE[:3], (profile,), RULES, QUICK)
    stepped = controlled(served, OfferedLoad({"s": SteppedArrivals(((0.0, 20.0), (6.0, 60.0)))}, 24.0, seed=1))
    count, offered = good(stepped["requests"], {"s": 0.6}, 6.0 + 2 * QUICK.epoch)
    step, came = good(stepped["requests"], {"s": 0.6}, 6.0, 6.0 + 2 * QUICK.epoch)
    rows = [{"scenario": "S10 step", "good_after_2_epochs": count / offered, "good_during": step / came, "changes": stepped["changes"]}]
    parts = tuple((6.0 * index, 20.0 * (1.05 if index % 2 else 0.95)) for index in range(10))
    steady = controlled(served, OfferedLoad({"s": SteppedArrivals(parts)}, 60.0, seed=2))
    count, offered = good(steady["requests"], {"s": 0.6})
    rows.append({"scenario": "S10 steady", "good": count / offered, "changes": steady["changes"]})
    print(*rows, sep="\n", flush=True)
    return rows


def s11(rounds: int) -> list[dict[str, Any]]:
    """A machine whose process is killed at 60 % of what the site can do."""
    profile = straight("emulated", SLOPE, START, loading=1.0)
    session = ServingSession("s", "emulated", 0.6, 50.0)
    served = ServedSite((session,), SITE[:2], (profile,), RULES, QUICK)
    rows = []
    for turn in range(rounds):
        killed: list[float] = []

        def kill(site: RaySite, begin: float, killed: list[float] = killed) -> None:
            time.sleep(8.0)
            os.kill(site.signs[SITE[0].name].pid, signal.SIGKILL)
            killed.append(time.time())

        done = controlled(served, OfferedLoad({"s": PoissonArrivals(60.0)}, 18.0, seed=turn), kill)
        found, at = done["requests"], killed[0] - done["begun"]
        bad = [each.ended for each in found if each.ended > at and (each.status != 200 or each.latency > 0.6)]
        unanswered = sum(each.status == 0 for each in found)
        twice = sum(done["counted"].values()) - len(found) - 10  # ten came before, to warm up
        row = {"scenario": "S11", "killed": at, "bad": len(bad), "offered": len(found), "outcomes": _counted(found)}
        row |= {"drops_end_after": max(bad, default=at) - at, "unanswered": unanswered, "counted_more": twice}
        rows.append(row | {"changes": done["changes"], "bar": QUICK.missed * QUICK.beacon + 1.0})
        print(rows[-1], flush=True)
    return rows


def s12(rounds: int) -> list[dict[str, Any]]:
    """Tenant A at five times its plan, beside tenant B on the same machine."""
    profiles = (straight("a", 0.004, 0.04), straight("b", 0.004, 0.04))
    sessions = (ServingSession("a", "a", 0.5, 20.0), ServingSession("b", "b", 0.5, 15.0))
    served = ServedSite(sessions, SITE[:1], profiles, RULES)
    first = served.plan({}, frozenset(), None)
    models: dict[tuple[str, str], ServedModel] = {(each.model, "box"): EmulatedModel(each, FORM) for each in profiles}
    site = begun(served, models, first, GatewayRules(network=WAY))
    rows = []
    for turn in range(rounds):
        load = OfferedLoad({"a": PoissonArrivals(100.0), "b": PoissonArrivals(15.0)}, 10.0, seed=turn)
        found = generated(URL, schedule(load), _slos(sessions))
        shares = {}
        for name in ("a", "b"):
            count, offered = good([each for each in found if each.session == name], _slos(sessions))
            shares[name] = count / offered
        count, offered = good(found, _slos(sessions))
        row = {"scenario": "S12", "good_of_offered": count / offered, "a": shares["a"], "b": shares["b"], "outcomes": _counted(found)}
        rows.append(row | {"simulated": _simulated(served, first, load, None)})
        print(rows[-1], flush=True)
        time.sleep(3.0)
    site.drain(5)
    return rows


def s14(rounds: int) -> list[dict[str, Any]]:
    """The seconds until 200 requests that come at once are answered, by cost and by count, on a machine and one of a quarter of it."""
    usual = straight("m", 0.02, 0.06)
    slow = replace(straight("m", 0.08, 0.24), kind="slow")
    machines = (SITE[0], replace(SITE[1], kind="slow"))
    session = ServingSession("s", "m", 60.0, 1e5)  # more than they can do: both are filled
    first, _ = plan([session], machines, (usual, slow), None, PlanningRules(jitter=0.0, headroom=0.0, deviations=0.0))
    served = ServedSite((session,), machines, (usual, slow), RULES)
    models: dict[tuple[str, str], ServedModel] = {("m", each.kind): EmulatedModel(each, FORM) for each in (usual, slow)}
    rows = []
    for turn in range(rounds):
        for router in (LeastCompletionTime(), PowerOfTwoChoices()):
            rules = GatewayRules(router, AdmitAll(), seed=turn)
            site = begun(served, models, first, rules, DutyTurns(FirstInFirstOut()))
            found = generated(URL, [(index * 1e-4, "s") for index in range(200)], {"s": 60.0})
            row = {"scenario": "S14", "who": type(router).__name__, "makespan": max(each.ended for each in found)}
            rows.append(row | {"outcomes": _counted(found)})
            print(rows[-1], flush=True)
            site.drain(5)
    return rows


SCENARIOS: dict[str, Callable[[int], list[dict[str, Any]]]] = {"S6": s6, "S7": s7, "S10": s10, "S11": s11, "S12": s12, "S14": s14}


def main() -> None:
    """Run the scenarios, and print what to put into a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ray.init(resources={f"machine:{each.name}": 1.0 for each in SITE}, log_to_driver=False)
    rows: list[dict[str, Any]] = []
    for name in given.only.split(","):
        print("==", name, "load", os.getloadavg(), flush=True)
        rows += SCENARIOS[name](given.rounds)
        if given.json is not None:
            given.json.write_text(json.dumps(rows, indent=1) + "\n")
    ray.shutdown()
    print(table(rows))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Medians of the races, and the lowest and highest of them."""
    lines = []
    for key in dict.fromkeys((row["scenario"], row.get("who", "")) for row in rows):
        own = [row for row in rows if (row["scenario"], row.get("who", "")) == key]
        cells = []
        for name in (
            "good_of_optimum",
            "good_of_both",
            "good_of_offered",
            "simulated",
            "p99",
            "drop_p50",
            "drop_p99",
            "b",
            "drops_end_after",
            "makespan",
        ):
            values = [row[name] for row in own if name in row]
            if values:
                cells.append(f"{name} {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        lines.append(" | ".join([*key, *cells]))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
