"""Plans and batchers of `polyrhythm.serving` against exact optima and baselines, in virtual time: S1 to S5, S8 to S10, S12 and S14.

    python benchmarks/serving_plans.py [--only S1,S5] [--json FILE]

The bars were fixed before. Random sites are those of tests/serving/sites.py; every figure has its baseline in the same run. A line for
each measurement: its name, what it was, the bar, the figure, and whether it is met.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "serving"))

from sites import EXACT, fewest_machines, least_cost, machines, random_site, straight

from polyrhythm.serving import (
    AdmitAll,
    ArrivalProcess,
    Batcher,
    ControlRules,
    DeferredBatch,
    DutyTurns,
    EarlyDrop,
    EvenSplit,
    FirstInFirstOut,
    LatencyProfile,
    LazyDrop,
    LeastCompletionTime,
    OfferedLoad,
    OptimalSplit,
    PlanningRules,
    PoissonArrivals,
    PowerOfTwoChoices,
    PrefixFamily,
    Query,
    QueryNode,
    RecordedArrivals,
    RequestRouter,
    ServingMachine,
    ServingSession,
    SimulatedSite,
    SteppedArrivals,
    plan,
    plan_families,
    simulate_serving,
)

CURVES = {"1.0 b + 25": (0.001, 0.025), "1.4 b + 15": (0.0014, 0.015), "1.8 b + 5": (0.0018, 0.005)}
BATCHERS: Mapping[str, Batcher] = {"fifo": FirstInFirstOut(), "lazy": LazyDrop(), "early": EarlyDrop(), "deferred": DeferredBatch()}
OPTIMUM = 500.0
GOOD = 0.99


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    name: str
    what: str
    bar: str
    figure: str
    met: bool
    details: Any = None


def s1() -> list[Measured]:
    """Machines against the exact optimum: 200 sites of 3 to 11 sessions on equal machines, 60 on unequal ones."""
    ratios, over = [], []
    for seed in range(200):
        count = 11 if seed % 20 == 0 else 3 + seed % 7
        sessions, profiles = random_site(random.Random(seed), count, {"gpu": 1.0})
        made, _ = plan(sessions, machines(count + 1), profiles, None, EXACT)
        exact = fewest_machines(sessions, profiles, machines(1)[0])
        ratios.append(len(made.machines) / exact)
        over.append(len(made.machines) - exact)
    unequal, beyond = [], []
    for seed in range(60):
        sessions, profiles = random_site(random.Random(1000 + seed), 6, {"gpu": 1.0, "laptop": 4.0}, 0.03, 0.2)
        site = [*machines(2, cost=3.0), *machines(8, "laptop")]
        made, _ = plan(sessions, site, profiles, None, EXACT)
        exact_cost = least_cost(sessions, profiles, site)
        unequal.append(made.cost / exact_cost)
        beyond.append(made.cost - exact_cost)
    mean, most = statistics.mean(ratios), max(over)
    equal = f"{mean:.3f}, at most +{most}"
    first = Measured("S1", "machines / exact optimum, 200 sites", "mean ≤ 1.05, ≤ +1", equal, mean <= 1.05 and most <= 1)
    mean, most = statistics.mean(unequal), max(beyond)
    text = f"{mean:.3f}, at most {most:+.0f}; {sum(each > 1e-6 for each in beyond)} above, {sum(each < -1e-6 for each in beyond)} below"
    what = "cost / exact optimum of whole sessions, machines of 4:1 at costs of 3:1, 60 sites"
    return [first, Measured("S1", what, "mean ≤ 1.05, ≤ +1", text, mean <= 1.05 and most <= 1)]


def s2() -> list[Measured]:
    """The fluid bound: no plan needs fewer machines than its sessions at full batches; and a machine of its own for each session."""
    made = []
    for low, high, regime in ((0.5, 2.0, "at least half a machine each"), (0.01, 0.05, "1 to 5 % of a machine")):
        bounds, dedicated = [], []
        for seed, count in enumerate((20, 40, 60, 80, 100) * 2):
            sessions, profiles = random_site(random.Random(seed), count, {"gpu": 1.0}, low, high)
            full = [each.throughput(max(1, each.largest_within(one.slo / 2))) for one, each in zip(sessions, profiles, strict=True)]
            needed = [one.rate / rate for one, rate in zip(sessions, full, strict=True)]
            found, _ = plan(sessions, machines(3 * count), profiles, None, EXACT)
            bounds.append(sum(needed) / len(found.machines))
            dedicated.append(len(found.machines) / sum(int(-(-each // 1)) for each in needed))
        bound, part = statistics.mean(bounds), statistics.mean(dedicated)
        shown = f"{bound:.2f} ({min(bounds):.2f} to {max(bounds):.2f})"
        share = f"{part:.3f} ({min(dedicated):.2f} to {max(dedicated):.2f})"
        if low >= 0.5:
            made.append(Measured("S2", f"fluid bound / machines, 20 to 100 sessions, {regime}", "≥ 0.80", shown, min(bounds) >= 0.80))
        bar = 0.85 if low >= 0.5 else 0.30
        made.append(Measured("S3", f"machines / machines of their own, sessions of {regime}", f"mean ≤ {bar}", share, part <= bar))
    return made


def s4() -> list[Measured]:
    """Every plan, played at its planned rates with Poisson's arrivals."""
    worst, count, broken, details = 1.0, 0, 0, []
    for deviations, headroom in ((0.0, 0.1), (1.5, 0.1)):
        worst, count, broken, used = 1.0, 0, 0, 0
        for seed in range(20):
            kinds = {"gpu": 1.0} if seed % 2 else {"gpu": 1.0, "laptop": 4.0}
            sessions, profiles = random_site(random.Random(seed), 6, kinds, 0.05, 0.7)
            site = [each for kind in kinds for each in machines(12, kind)]
            rules = PlanningRules(headroom=headroom, deviations=deviations)
            first, _ = plan(sessions, site, profiles, None, rules)
            settled = SimulatedSite(tuple(sessions), tuple(site), tuple(profiles), rules)
            load = OfferedLoad({one.name: PoissonArrivals(one.rate) for one in sessions}, 15.0, seed)
            played = simulate_serving(settled, load, first)
            memory = {each.name: each.memory for each in site}
            broken += sum(nbytes > memory[name] for name, nbytes in played.most_bytes.items())
            rates = [each.good_rate for each in played.tally().values()]
            worst, count, used = min(worst, *rates), count + sum(rate < GOOD for rate in rates), used + len(first.machines)
        details.append({"deviations": deviations, "worst": worst, "below": count, "machines": used})
    figure = f"worst {worst:.4f}, {count} of 120 below; memory exceeded {broken} times"
    even = details[0]
    text = f"{figure} (without deviations: worst {even['worst']:.3f}, {even['below']} below, {even['machines']} machines instead of {used})"
    what = "good rate of each session, Poisson at the planned rates, 20 sites"
    return [Measured("S4", what, "≥ 0.99 each, memory kept", text, worst >= GOOD and not broken, details)]


def good(batcher: Batcher, curve: tuple[float, float], rate: float, seconds: float, seed: int) -> float:
    """The part that one machine answers in time, planned for its optimum of 500 requests per second within 100 ms."""
    profile, site = straight("m", *curve), tuple(machines(1))
    first, _ = plan([ServingSession("s", "m", 0.1, OPTIMUM)], site, [profile], None, EXACT)
    settled = SimulatedSite((ServingSession("s", "m", 0.1, rate),), site, (profile,), EXACT, DutyTurns(batcher), admission=AdmitAll())
    return simulate_serving(settled, OfferedLoad({"s": PoissonArrivals(rate)}, seconds, seed), first).tally()["s"].good_rate


def highest(batcher: Batcher, curve: tuple[float, float], seconds: float = 30.0, seed: int = 1) -> float:
    """The highest rate of which 99 % are answered in time, to 4 requests per second."""
    low, high = 200.0, 520.0
    while high - low > 4:
        middle = (low + high) / 2
        low, high = (middle, high) if good(batcher, curve, middle, seconds, seed) >= GOOD else (low, middle)
    return low


def s5() -> list[Measured]:
    """Batchers on one machine: the rate at 99 %, and what is left of the optimum at 120 % of it."""
    table = {
        name: {kind: (highest(batcher, curve), good(batcher, curve, 1.2 * OPTIMUM, 30.0, 1) * 1.2) for kind, batcher in BATCHERS.items()}
        for name, curve in CURVES.items()
    }
    first = table["1.0 b + 25"]
    gain, kept = first["early"][0] / first["lazy"][0], min(row["early"][1] for row in table.values())
    shown = {name: ", ".join(f"{kind} {rate:.0f} ({part:.2f})" for kind, (rate, part) in row.items()) for name, row in table.items()}
    return [
        Measured("S5", "rate at 99 %, early / lazy drop, 1.0 b + 25", "≥ 1.12", f"{gain:.2f}", gain >= 1.12, table),
        Measured("S5", f"good answers / optimum at 120 % load, early drop ({shown})", "≥ 0.90", f"{kept:.2f}", kept >= 0.90),
    ]


RANGES = {"a": ((0.0006, 0.0012), (0.002, 0.006)), "b": ((0.0001, 0.0003), (0.0005, 0.002)), "c": ((0.0006, 0.0012), (0.015, 0.03))}


def s8() -> list[Measured]:
    """A query of three stages, the last of which runs five times; objectives are multiples of the least that even parts can meet."""
    lines = []
    for loose in (1.5, 3.0):
        ratios = []
        for seed in range(10):
            draw = random.Random(seed)
            profiles = [straight(name, draw.uniform(*slope), draw.uniform(*start)) for name, (slope, start) in RANGES.items()]
            nodes = (QueryNode("detect", "a"), QueryNode("crop", "b", ("detect",)), QueryNode("recognize", "c", ("crop",), 5.0))
            query = Query("q", nodes, loose * 3 * max(2 * each.latency(1) for each in profiles), 1000.0)
            counts = [
                len(plan(split.sessions(query, profiles, EXACT), machines(90), profiles, None, EXACT)[0].machines)
                for split in (OptimalSplit(), EvenSplit())
            ]
            ratios.append(counts[0] / counts[1])
        mean = statistics.mean(ratios)
        what = f"machines, split by the programme / even, 10 queries, {loose} times the least objective"
        lines.append(Measured("S8", what, "≤ 0.85", f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})", mean <= 0.85))
    return lines


def family_of(part: float, count: int, rate: float) -> tuple[list[ServingSession], list[LatencyProfile], PrefixFamily]:
    """`count` variants of a model of 25 + b milliseconds, of which `part` is shared."""
    names = [f"v{index}" for index in range(count)]
    suffixes = tuple(straight(name, 0.001 * (1 - part), 0.025 * (1 - part)) for name in names)
    family = PrefixFamily("base", tuple(names), (straight("base", 0.001 * part, 0.025 * part),), suffixes)
    return [ServingSession(name, name, 0.12, rate) for name in names], [straight(name, 0.001, 0.025) for name in names], family


def s9() -> list[Measured]:
    """Prefix batching: outputs of torch models, and the rate that as many machines serve with a family and without."""
    import torch

    from polyrhythm.serving.prefix_models import shared_prefix

    torch.set_num_threads(1)
    models = {}
    for index in range(10):
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU()]
        shared = [*layers, torch.nn.Flatten(), torch.nn.Linear(9216, 32)]
        torch.manual_seed(1 + index)
        models[f"v{index}"] = torch.nn.Sequential(*shared, torch.nn.Linear(32, 10)).eval()
    joined = shared_prefix(models)
    assert joined is not None
    inputs, names = torch.randn(40, 1, 28, 28), [f"v{index % 10}" for index in range(40)]
    with torch.inference_mode():
        alone = [models[name](row[None])[0] for row, name in zip(inputs, names, strict=True)]
        apart = max(float((one - other).abs().max()) for one, other in zip(joined(inputs, names), alone, strict=True))

    def most(part: float, with_family: bool) -> float:
        """The highest rate of all ten variants together that four machines serve."""
        low, high = 0.0, 4000.0
        while high - low > 5:
            middle = (low + high) / 2
            sessions, profiles, family = family_of(part, 10, middle / 10)
            made = plan_families(sessions, machines(4), profiles, [family] if with_family else [], EXACT).plan
            low, high = (low, middle) if made.unserved else (middle, high)
        return low

    gains = {part: most(part, True) / max(1.0, most(part, False)) for part in (0.99, 0.95, 0.8, 0.5, 0.3)}
    declined = not plan_families(*_site_of(0.3), EXACT).used
    text = ", ".join(f"{part:.0%}: {gain:.2f}" for part, gain in gains.items())
    return [
        Measured("S9", "outputs of a mixed batch against each model alone (fp32)", "≤ 1e-6", f"{apart:.1e}", apart <= 1e-6),
        Measured(
            "S9",
            "rate of 10 variants on 4 machines with a family / without",
            "≥ 2 from 95 %",
            text,
            gains[0.95] >= 2,
            gains,
        ),
        Measured("S9", "a family with 30 % shared", "declined", "declined" if declined else "used", declined),
    ]


def _site_of(part: float) -> tuple[list[ServingSession], list[ServingMachine], list[LatencyProfile], list[PrefixFamily]]:
    sessions, profiles, family = family_of(part, 10, 40.0)
    return sessions, machines(20), profiles, [family]


def s10() -> list[Measured]:
    """The control loop: a threefold rate of one session, and rates that change by 5 % every ten seconds for ten epochs."""
    after, during, changes = [], [], 0
    for seed in range(5):
        sessions, profiles = random_site(random.Random(seed), 4, {"gpu": 1.0}, 0.1, 0.5)
        loaded, site = tuple(replace(each, loading=3.0) for each in profiles), tuple(machines(10))
        settled = SimulatedSite(tuple(sessions), site, loaded, control=ControlRules())
        arrivals: dict[str, ArrivalProcess] = {one.name: PoissonArrivals(one.rate) for one in sessions}
        stepped = sessions[0]
        arrivals[stepped.name] = SteppedArrivals(((0.0, stepped.rate), (30.0, 3 * stepped.rate)))
        played = simulate_serving(settled, OfferedLoad(arrivals, 120.0, seed))
        after.append(played.tally(90.0)[stepped.name].good_rate)
        during.append(played.tally(30.0, 90.0)[stepped.name].good_rate)
        steady: dict[str, ArrivalProcess] = {
            one.name: SteppedArrivals(tuple((10.0 * i, one.rate * (1 + 0.05 * (-1) ** i)) for i in range(30))) for one in sessions
        }
        changes += len(simulate_serving(settled, OfferedLoad(steady, 300.0, seed)).plans) - 1
    text = f"{min(after):.3f} after two epochs ({min(during):.3f} to {max(during):.3f} within them)"
    return [
        Measured("S10", "good rate of a session whose rate grows threefold, 5 sites", "≥ 0.95 within 2 epochs", text, min(after) >= 0.95),
        Measured("S10", "changes of plan at rates of ± 5 %, 10 epochs, 5 sites", "0", str(changes), changes == 0),
    ]


def s12() -> list[Measured]:
    """Tenant A sends five times what is planned for it."""
    worst, own = 1.0, []
    for seed in range(5):
        draw = random.Random(seed)
        sessions = (ServingSession("a", "m", 0.1, 100.0), ServingSession("b", "n", 0.1, 100.0))
        profiles = tuple(straight(name, draw.uniform(0.0005, 0.0015), draw.uniform(0.003, 0.008)) for name in "mn")
        load = OfferedLoad({"a": PoissonArrivals(500.0), "b": PoissonArrivals(100.0)}, 30.0, seed)
        tally = simulate_serving(SimulatedSite(sessions, tuple(machines(1)), profiles), load).tally()
        worst = min(worst, tally["b"].good_rate)
        own.append(tally["a"].good_rate)
    text = f"{worst:.4f} (A: {min(own):.2f} to {max(own):.2f})"
    return [Measured("S12", "good rate of B while A sends 5 times its plan, one machine", "≥ 0.99", text, worst >= GOOD)]


def s14() -> list[Measured]:
    """Makespan of 2,000 requests on machines of 4:1, by count and by cost."""
    profiles = (straight("m", 0.002, 0.006), straight("m", 0.008, 0.024, "laptop"))

    def span(router: RequestRouter, site: Sequence[ServingMachine], load: ArrivalProcess, seed: int) -> float:
        session = ServingSession("s", "m", 60.0, 1e5)
        first, _ = plan([session], site, profiles, None, EXACT)
        settled = SimulatedSite((session,), tuple(site), profiles, EXACT, DutyTurns(FirstInFirstOut()), router, AdmitAll())
        return simulate_serving(settled, OfferedLoad({"s": load}, 60.0, seed), first).makespan

    lines = []
    sites = {"1 + 1": [*machines(1), *machines(1, "laptop")], "1 + 3": [*machines(1), *machines(3, "laptop")]}
    at_once = RecordedArrivals(tuple(index * 1e-6 for index in range(2000)))
    rates = {"1 + 1": 560.0, "1 + 3": 780.0}
    for name, site in sites.items():
        steady = RecordedArrivals(tuple(index / rates[name] for index in range(2000)))
        for what, load in (("all at once", at_once), (f"over {2000 / rates[name]:.1f} s", steady)):
            ratios = [span(LeastCompletionTime(), site, load, seed) / span(PowerOfTwoChoices(), site, load, seed) for seed in range(5)]
            mean = statistics.mean(ratios)
            text = f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            lines.append(Measured("S14", f"makespan by cost / by count, fast + slow {name}, {what}", "≤ 0.85", text, mean <= 0.85))
    return lines


ALL: Mapping[str, Callable[[], list[Measured]]] = {each.__name__.upper(): each for each in (s1, s2, s4, s5, s8, s9, s10, s12, s14)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(ALL), help="the measurements, with commas between; S2 has S3 too")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    found: list[Measured] = []
    for name in chosen.only.split(","):
        for each in ALL[name.upper()]():
            found.append(each)
            print(f"{'met   ' if each.met else 'MISSED'} {each.name:4} {each.what}: {each.figure} (bar {each.bar})", flush=True)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
