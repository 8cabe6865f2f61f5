"""The seconds of a step of a torch.distributed script: predicted in virtual time, and measured over gloo in the lab (root).

    python benchmarks/torch_lab.py --congestion reno --json torch_lab.json

`torch_timed.py` runs unchanged in both. What ranks compute is measured once (`simulate --measure`), on one rank at a time and without the
lab. Networks, sizes and the targets, 15 % in the median and 25 % at worst, were fixed before the first run. `torch_timed.py` prints
where its threads wait if it stands still.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
NETWORKS = {"slow": "slow", "middling": str(HERE / "networks" / "middling.json"), "two_sites": str(HERE / "networks" / "two_sites.json")}
WAYS, HOSTS = ("ddp", "fsdp2", "pipeline"), (2, 4)
STILL = 600
"""Seconds after which a command is ended; `torch_timed.py` ends itself before."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way on one network, in seconds a step; `load` is that of the machine when it was measured."""

    way: str
    hosts: int
    network: str
    predicted: float
    measured: float
    load: float

    @property
    def error(self) -> float:
        """Relative to what was measured."""
        return self.predicted / self.measured - 1


def seconds(*command: str) -> float:
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "polyrhythm", *command], capture_output=True, text=True, timeout=STILL)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr[-2000:]}")
    return float(re.findall(r"seconds (\S+)", done.stdout)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--hosts", nargs="+", type=int, default=HOSTS)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--congestion", help="the TCP congestion control of the lab's hosts; default: the machine's own")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    script, rows = str(HERE / "torch_timed.py"), []
    control = ("--congestion", given.congestion) if given.congestion else ()
    for way in given.ways:
        for hosts in given.hosts:
            with tempfile.TemporaryDirectory() as folder:
                profile = str(Path(folder) / "here.json")
                seconds("simulate", "--workers", str(hosts), "--measure", profile, script, way)
                for network in given.networks:
                    where = ("--network", NETWORKS[network])
                    predicted = seconds("simulate", "--workers", str(hosts), "--device", profile, *where, script, way)
                    lab = ("lab", "--hosts", str(hosts), "--quiet", *control, *where)
                    measured = seconds(*lab, "--", sys.executable, "-W", "ignore", script, way)
                    rows.append(Row(way, hosts, network, predicted, measured, os.getloadavg()[0]))
                    print(
                        f"{way:10} {hosts} {network:10} {predicted:.4f} {measured:.4f} {rows[-1].error:+.1%} {rows[-1].load:.1f}",
                        flush=True,
                    )
    errors = sorted(abs(row.error) for row in rows)
    print(f"median {statistics.median(errors):.1%}, worst {errors[-1]:.1%}")
    if given.json:
        given.json.write_text(
            json.dumps({"congestion": given.congestion or "the machine's own", "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
