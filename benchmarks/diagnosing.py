"""Whether `polyrhythm diagnose` names what was made slow, in real runs on three or four hosts of the lab.

    python benchmarks/diagnosing.py --out runs/diagnosing       # root, because the lab needs it; about three minutes

Each case trains the same model on hosts that are joined at 100 Mbit/s, with one thing wrong: a worker that computes three times as long,
one that does so from the middle on, a host whose line is slow, a line that loses packets, a network that is far away or narrow. Every host
keeps its record; the records of all are diagnosed together. Prints what was injected and what is named first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import polyrhythm as pr
from polyrhythm.cli.record import read
from polyrhythm.report.diagnosis import diagnose, united

WIDTH, STEPS, PACE = 256, 60, 0.03
"""A quarter of a megabyte is exchanged in each step, after 30 ms of computing."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is wrong: arguments of the lab, the network's lines, and for rank `slow` the factor of its steps from step `since` on."""

    name: str
    kind: str
    where: str
    network: dict[str, object]
    lab: tuple[str, ...] = ()
    slow: int = -1
    since: int = 0
    system: str = "allreduce"


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
)


def train(worker: pr.Worker, slow: int, since: int) -> None:
    """Steps that take `PACE` seconds, three times as long at rank `slow` from step `since` on."""
    torch.manual_seed(0)
    model = torch.nn.Linear(WIDTH, WIDTH)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    for step in range(STEPS):
        began = time.monotonic()
        optimizer.zero_grad()
        model(torch.ones(1, WIDTH)).square().mean().backward()
        worker.count(1)
        time.sleep(max(0.0, began + PACE * (3 if worker.rank == slow and step >= since else 1) - time.monotonic()))
        optimizer.step()


def host(case: Case, out: Path) -> None:
    """One host of the lab."""
    torch.set_num_threads(1)
    worker = pr.join(case.system, directory=str(out))
    train(worker, case.slow, case.since)
    worker.leave()


def conducted(case: Case, out: Path) -> tuple[str, str]:
    """Run a case in the lab; the kind and the place of the first cause."""
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
    found = diagnose(united([outcome for rank in range(3) for outcome in read([out / f"worker-{rank}"]).outcomes]))
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
