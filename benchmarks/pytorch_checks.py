"""PyTorch's own checks of its distributed package, through polyrhythm and through gloo, side by side.

    python benchmarks/pytorch_checks.py [--ranks 4] [--only WORD] [--write docs/torch_checks.md]

PyTorch ships `torch.testing._internal.distributed.distributed_test`: some 300 methods about collectives, object collectives,
sub-groups, DistributedDataParallel with its hooks and joins, and model averaging. All run in real processes on the CPU, once for
each backend; those that need a GPU skip themselves. The module is imported as for gloo, so that it takes up what it knows gloo to
support, and its call of `init_process_group` is then given the other name. What gloo tells PyTorch's profiler is not looked for.
Prints the counts and every method whose outcome differs. It needs the package expecttest beside the development tools.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

BACKENDS = ("gloo", "polyrhythm")
OURS = "polyrhythm"


def checks(backend: str) -> type[unittest.TestCase]:
    """The shipped methods as a test case."""
    import torch.multiprocessing
    from torch.testing._internal.distributed import distributed_test as shipped

    import polyrhythm.process_group  # noqa: F401

    if backend == OURS:
        begin = shipped.dist.init_process_group
        shipped.dist.init_process_group = lambda *rest, **named: begin(*rest, **(named | {"backend": OURS}))
        for supported in (shipped.PROFILING_SUPPORTED_BACKENDS, shipped.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            supported.clear()

    class Checks(shipped.TestDistBackend, shipped.DistributedTest._DistTestBase):  # type: ignore[misc]
        """Ranks are forked, which takes a tenth of the time that starting them afresh does."""

        def setUp(self) -> None:
            super().setUp()
            torch.set_num_threads(1)
            self._fork()

        def _fork(self) -> None:
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Checks


class Outcomes(unittest.TestResult):
    """What became of each method."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend
        self.found: dict[str, tuple[str, str]] = {}

    def note(self, test: Any, outcome: str, detail: str = "") -> None:
        name = test.id().rsplit(".", 1)[-1]
        self.found[name] = (outcome, detail)
        print(f"{self.backend:10} {outcome:7} {name}", file=sys.stderr, flush=True)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self.note(test, "passes")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self.note(test, "skips", reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self.note(test, "fails", self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    addFailure = addError  # noqa: N815


def run_here(backend: str, only: str, result: Path) -> None:
    """All methods under `backend`."""
    suite = unittest.TestLoader().loadTestsFromTestCase(checks(backend))
    chosen = unittest.TestSuite(test for test in suite if only in test.id())  # type: ignore[union-attr]
    outcomes = Outcomes(backend)
    chosen.run(outcomes)
    result.write_text(json.dumps(outcomes.found))


def run_with(backend: str, options: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """The same in a process of its own, as the shipped module reads its environment when it is imported."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        environment = os.environ | {"BACKEND": "gloo", "WORLD_SIZE": str(options.ranks), "TEMP_DIR": folder, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--child", str(result), "--backend", backend, "--only", options.only]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, tuple[str, str]] = json.loads(result.read_text())
        return found


def page(found: dict[str, dict[str, tuple[str, str]]], ranks: int) -> str:
    """The outcomes as Markdown."""
    lines = [
        "# PyTorch's own checks through polyrhythm",
        "",
        f"Written by `python benchmarks/pytorch_checks.py --ranks {ranks} --write docs/torch_checks.md`.",
        "",
        "| backend | passes | fails | skips |",
        "|---|---|---|---|",
    ]
    for backend, outcomes in found.items():
        count = Counter(outcome for outcome, _ in outcomes.values())
        lines.append(f"| {backend} | {count['passes']} | {count['fails']} | {count['skips']} |")
    ours, theirs = found[OURS], found["gloo"]
    lines += ["", "## Outcomes that differ", ""]
    differing = [name for name in ours if ours[name][0] != theirs[name][0]]
    lines += [f"- `{name}`: gloo {theirs[name][0]}, polyrhythm {ours[name][0]}" for name in differing] or ["None."]
    for outcome, title in (("passes", "Passes with polyrhythm"), ("fails", "Fails with polyrhythm")):
        lines += ["", f"## {title}", ""]
        lines += [f"- `{name}`" for name, (what, _) in ours.items() if what == outcome] or ["None."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run both, compare, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--only", default="", help="only methods whose name has this in it")
    parser.add_argument("--write", type=Path, help="a Markdown page to write")
    parser.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_here(options.backend, options.only, options.child)
        return
    found = {backend: run_with(backend, options) for backend in BACKENDS}
    for name, (outcome, detail) in found[OURS].items():
        if outcome == "fails":
            print(f"--- {name} (gloo: {found['gloo'][name][0]})\n{detail[-3000:]}")
    text = page(found, options.ranks)
    print(text[: text.index("## Passes")])
    if options.write:
        options.write.write_text(text)
    sys.exit(any(outcome == "fails" and found["gloo"][name][0] == "passes" for name, (outcome, _) in found[OURS].items()))


if __name__ == "__main__":
    main()
