"""Whether `polyrhythm diagnose` names what was made slow, in real runs on three hosts of the lab.

    python benchmarks/diagnosing.py --out runs/diagnosing       # root, because the lab needs it; about four minutes

Each case trains the same model on hosts that are joined at 100 Mbit/s, with one thing wrong: a worker that computes three times as long,
one that does so from the middle on, one that is killed, a host whose line is slow, a line that loses packets, a network that is far away or
narrow, a server that merges slowly, gradients sent in small buckets. Every host keeps its record; the records of all are diagnosed
together. The lab ends all hosts when one fails, so that the run with a killed worker is one of processes of this machine. Prints what was
injected and what is named first.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import polyrhythm as pr
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.cli.record import read
from polyrhythm.tools.report.diagnosis import diagnose, united

WIDTH, STEPS, PACE = 256, 60, 0.03
"""A quarter of a megabyte is exchanged in each step, after 30 ms of computing."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is wrong: arguments of the lab, its network, and the rank whose steps are slow from step `since` on, or that is killed."""

    name: str
    kind: str
    where: str
    network: dict[str, object]
    lab: tuple[str, ...] = ()
    slow: int = -1
    since: int = 0
    system: str | Callable[[], pr.Strategy] = "allreduce"
    killed: int = -1
    layers: int = 1
    width: int = WIDTH


class SlowMerge(pr.merge.Mean):
    """As a server that has much else to do."""

    def combine(self, contributions: Any, context: Any) -> Any:
        """The mean, a while later."""
        time.sleep(PACE)
        return super().combine(contributions, context)


def network(bandwidth: str = "100 Mbit/s", latency: str = "1 ms", slow_host: int = -1) -> dict[str, object]:
    """A network file: one site, or one host at a site of its own with a tenth of the bandwidth."""
    if slow_host < 0:
        return {"name": "diagnosed", "sites": [{"name": "here", "egress": bandwidth, "latency": latency}]}
    hosts = [{"host": slow_host, "egress": "6 Mbit/s", "ingress": "6 Mbit/s"}]
    return {"name": "diagnosed", "sites": [{"name": "here", "egress": bandwidth, "latency": latency}], "hosts": hosts}


CASES = (
    Case("slow worker", "slow worker", "worker/1", network(), slow=1),
    Case("slow worker, bounded staleness", "slow worker", "worker/2", network(), slow=2, system="ssp"),
    Case("lost core", "slower since", "worker/0", network(), slow=0, since=STEPS // 2),
    Case("slow line", "slow link", "the line of worker/2", network(slow_host=2)),
    Case("loss", "loss", "worker/0 to worker/1", network(latency="10 ms"), lab=("--loss", "0:1=0.03")),
    Case("far away", "latency", "all links", network(latency="60 ms")),
    Case("narrow", "bandwidth", "all links", network("10 Mbit/s")),
    Case("busy server", "busy server", "server/0", network(), system=lambda: replace(pr.systems.ssp(), merge=SlowMerge())),
    Case(
        "small buckets",
        "latency",
        "all links",
        network(latency="10 ms"),
        system=lambda: pr.Strategy(topology=pr.topology.Bucketed(pr.topology.AllReduce(pr.topology.Ring()), 4096)),
        layers=8,
        width=32,
    ),
    Case("killed worker", "lost worker", "worker/1", network(), killed=1, system="adpsgd"),
)


def train(worker: pr.Worker, case: Case) -> None:
    """Steps that take `PACE` seconds, three times as long at the slow rank."""
    torch.manual_seed(0)
    model: Any = torch.nn.Sequential(*(torch.nn.Linear(case.width, case.width) for _ in range(case.layers)))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    for step in range(STEPS):
        began = time.monotonic()
        optimizer.zero_grad()
        model(torch.ones(1, case.width)).square().mean().backward()
        worker.count(1)
        if worker.rank == case.killed and step == STEPS // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(max(0.0, began + PACE * (3 if worker.rank == case.slow and step >= case.since else 1) - time.monotonic()))
        optimizer.step()


def host(case: Case, out: Path) -> None:
    """One host of the lab."""
    torch.set_num_threads(1)
    worker = pr.join(case.system if isinstance(case.system, str) else case.system(), directory=str(out))
    train(worker, case)
    worker.leave()


def conducted(case: Case, out: Path) -> tuple[str, str]:
    """Run a case in the lab; the kind and the place of the first cause."""
    if case.killed >= 0:  # the lab ends all hosts when one fails
        assert isinstance(case.system, str)
        outcome = pr.run(lambda worker: train(worker, case), workers=3, strategy=case.system, on=pr.Processes(), directory=out).outcome
        return _first(outcome)
    out.mkdir(parents=True, exist_ok=True)
    (out / "network.json").write_text(json.dumps(case.network))
    command = [
        sys.executable,
        "-m",
        "polyrhythm",
        "lab",
        "--hosts",
        "3",
        "--network",
        str(out / "network.json"),
        *case.lab,
        "--quiet",
    ]
    inner = [sys.executable, __file__, "--out", str(out), "--host", str(CASES.index(case))]
    subprocess.run([*command, "--", *inner], check=True, timeout=120)
    return _first(united([outcome for rank in range(3) for outcome in read([out / f"worker-{rank}"]).outcomes]))


def _first(outcome: Outcome) -> tuple[str, str]:
    found = diagnose(outcome)
    return (found.causes[0].kind, found.causes[0].where) if found.causes else ("nothing", "")


def main() -> None:
    """Conduct all cases, or be one of a case's hosts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--host", type=int)
    given = parser.parse_args()
    if given.host is not None:
        host(CASES[given.host], given.out)
        return
    named = 0
    for case in CASES:
        found = conducted(case, given.out / case.name.replace(" ", "-").replace(",", ""))
        named += found == (case.kind, case.where)
        print(f"{case.name}: {case.kind} at {case.where}; named first: {found[0]} at {found[1]}", flush=True)
    print(f"{named} of {len(CASES)} are named first")


if __name__ == "__main__":
    main()
