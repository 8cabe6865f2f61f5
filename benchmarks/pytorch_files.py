"""Files of PyTorch's own tests, which are in its repository and not in its package, through polyrhythm and through gloo, side by side.

    python benchmarks/pytorch_files.py test/distributed/_composable/fsdp/test_fully_shard_training.py ... [--write docs/torch_files.md]

Each file runs in real processes on the CPU, once for each backend: where a test asks for gloo, or for what is usual on a CPU, it gets the
other name. Ranks are forked, which takes a tenth of the time that starting them afresh does. Tests of ranks that are threads, of one
process and of GPUs have the same outcome with both. The files are imported as they are, from their own folder.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from pytorch_checks import BACKENDS, OURS, Outcomes

SECONDS = 90
"""The time for one test."""
DEVICES = 4
"""What torch says of its GPUs: the tests of FSDP2 skip themselves where there are fewer than ranks, and do not need them."""
Found = dict[str, tuple[str, str]]


def named(backend: Any) -> Any:
    """The backend for what a test asks for."""
    return OURS if backend in (None, "gloo", "cpu:gloo", "cpu:gloo,cuda:nccl") else backend


def put_in_place_of_gloo() -> None:
    """Let tests that ask for gloo get the other backend."""
    import torch.distributed as dist

    import polyrhythm.process_group  # noqa: F401

    for name in ("init_process_group", "new_group"):
        theirs = getattr(dist, name)

        @functools.wraps(theirs)
        def ours(*given: Any, theirs: Any = theirs, name: str = name, **more: Any) -> Any:
            place = 0 if name == "init_process_group" else 2
            if len(given) > place:
                given = (*given[:place], named(given[place]), *given[place + 1 :])
            elif name == "init_process_group" or more.get("backend") is not None:
                more["backend"] = named(more.get("backend"))
            return theirs(*given, **more)

        for module in (dist, dist.distributed_c10d):
            setattr(module, name, ours)


def run_here(backend: str, file: Path, result: Path) -> None:
    """All tests of `file` under `backend`."""
    import torch
    import torch.multiprocessing
    from torch.testing._internal import common_distributed

    torch.set_num_threads(1)
    torch.multiprocessing.set_start_method("fork")
    forked = torch.multiprocessing.get_context("fork").Process
    common_distributed.MultiProcessTestCase._spawn_processes = lambda case: case._start_processes(forked)
    common_distributed.TIMEOUT_DEFAULT = SECONDS
    common_distributed.TIMEOUT_OVERRIDE.clear()
    torch.accelerator.device_count = lambda: DEVICES
    if backend == OURS:
        put_in_place_of_gloo()
    sys.path.insert(0, str(file.parent))
    module = importlib.import_module(file.stem)
    outcomes = Outcomes(backend)
    unittest.TestLoader().loadTestsFromModule(module).run(outcomes)
    result.write_text(json.dumps(outcomes.found))


def run_with(backend: str, file: Path, limit: float) -> Found:
    """The same in a process of its own; nothing where it could not be imported, or took too long."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, __file__, str(file), "--child", str(result), "--backend", backend]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with (
            open(Path(folder) / "errors", "w+b") as errors,
            subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True) as process,
        ):
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its ranks too
                return {"the whole file": ("fails", "it did not end in time")}
            errors.seek(0)
            text = errors.read().decode()
        if not result.exists():
            return {"the whole file": ("fails", text[-2000:])}
        found: Found = json.loads(result.read_text())
        return found


def page(found: dict[str, dict[str, Found]], origin: str) -> str:
    """The outcomes as Markdown."""
    lines = [
        "# Files of PyTorch's tests through polyrhythm",
        "",
        f"Written by `python benchmarks/pytorch_files.py`. {origin}".rstrip(),
        "",
        "| file | tests | gloo passes | polyrhythm passes | of those that gloo passes |",
        "|---|---|---|---|---|",
    ]
    sums: Counter[str] = Counter()
    differing = []
    for name, outcomes in found.items():
        theirs, ours = outcomes["gloo"], outcomes[OURS]
        passed = {backend: {test for test, (what, _) in outcomes[backend].items() if what == "passes"} for backend in BACKENDS}
        counts = {"all": len(theirs.keys() | ours.keys()), **{backend: len(passed[backend]) for backend in BACKENDS}}
        counts["both"] = len(passed["gloo"] & passed[OURS])
        sums.update(counts)
        lines.append(f"| `{name}` | {counts['all']} | {counts['gloo']} | {counts[OURS]} | {counts['both']} |")
        tests = sorted(test for test in theirs.keys() | ours.keys() if theirs.get(test, ("absent",))[0] != ours.get(test, ("absent",))[0])
        differing += [(name, test, theirs.get(test, ("absent", ""))[0], ours.get(test, ("absent", ""))[0]) for test in tests]
    lines.append(f"| all | {sums['all']} | {sums['gloo']} | {sums[OURS]} | {sums['both']} |")
    lines += ["", "## Outcomes that differ", ""]
    lines += [f"- `{name}`, `{test}`: gloo {theirs}, polyrhythm {ours}" for name, test, theirs, ours in differing] or ["None."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run both, compare, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--origin", default="", help="a sentence on where the files are from")
    parser.add_argument("--seconds", type=float, default=600.0, help="the time for one file and backend")
    parser.add_argument("--write", type=Path, help="a Markdown page to write")
    parser.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_here(options.backend, options.files[0].resolve(), options.child)
        return
    found: dict[str, dict[str, Found]] = {}
    for file in options.files:
        found[file.name] = {backend: run_with(backend, file, options.seconds) for backend in BACKENDS}
        for name, (outcome, detail) in found[file.name][OURS].items():
            if outcome == "fails" and found[file.name]["gloo"].get(name, ("",))[0] == "passes":
                print(f"--- {file.name} {name}\n{detail[-2000:]}", flush=True)
        if options.write:
            options.write.write_text(page(found, options.origin))
    print(page(found, options.origin))


if __name__ == "__main__":
    main()
