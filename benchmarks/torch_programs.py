"""Scripts of torch.distributed in virtual time, and by torchrun over gloo: are the losses equal?

    python benchmarks/torch_programs.py --json torch_programs.json

Each script of `torch_scripts` prints the loss of its last step. It is run in virtual time on 2, 4 and 8 ranks, over a fast and a slow
network, twice with the same seed, and by torchrun on as many processes. Losses of the two must be equal to 1e-5, the records of the two
virtual runs to the byte, and values must not depend on the network.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

import polyrhythm as pr
from polyrhythm.core.simulator import Simulator

SCRIPTS = Path(__file__).parent / "torch_scripts"
RANKS, NETWORKS = (2, 4, 8), ("lan", "slow")
CLOSE = 1e-5


@dataclass(frozen=True, slots=True)
class Row:
    """One script on so many ranks; the real seconds are those of the run in virtual time."""

    script: str
    ranks: int
    gloo: float
    virtual: float
    networks: bool
    repeats: bool
    lan_seconds: float
    slow_seconds: float
    real_seconds: float

    @property
    def good(self) -> bool:
        """True if all is as it must be."""
        return abs(self.gloo - self.virtual) <= CLOSE * abs(self.gloo) and self.networks and self.repeats


def loss_in(text: str) -> float:
    [found] = re.findall(r"loss (\S+)", text)
    return float(found)


def simulated(script: Path, ranks: int, network: str) -> tuple[float, str, float]:
    """The loss, a digest of the record, and the virtual seconds."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run = pr.simulate(script, ranks=ranks, on=Simulator(network=network))
    digest = hashlib.sha256(msgspec.json.encode(run.outcome.events)).hexdigest()
    return loss_in(printed.getvalue()), digest, run.summary.virtual_seconds or 0.0


def by_torchrun(script: Path, ranks: int) -> float:
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(script)]
    return loss_in(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)


def row(script: Path, ranks: int) -> Row:
    began = time.perf_counter()
    lan, again, slow = (simulated(script, ranks, network) for network in (*NETWORKS[:1], *NETWORKS))
    real = (time.perf_counter() - began) / 3
    return Row(script.stem, ranks, by_torchrun(script, ranks), lan[0], lan[0] == slow[0], lan[:2] == again[:2], lan[2], slow[2], real)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", nargs="+", default=sorted(path.stem for path in SCRIPTS.glob("*.py")), metavar="NAME")
    parser.add_argument("--ranks", nargs="+", type=int, default=RANKS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for name in given.scripts:
        for ranks in given.ranks:
            found = row(SCRIPTS / f"{name}.py", ranks)
            rows.append(found)
            print(f"{name:24} {ranks} {found.gloo:.8f} {found.virtual:.8f} {'equal' if found.good else 'DIFFERENT'}", flush=True)
    print(f"{sum(each.good for each in rows)} of {len(rows)} equal")
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
