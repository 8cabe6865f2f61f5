"""PyTorch's own tests of its distributed package, through gloo, through polyrhythm, and in virtual time, side by side.

    python benchmarks/pytorch_checks.py [--tests DIR] [--only WORD] [--details FILE] [--write docs/torch_checks.md]
    python benchmarks/pytorch_checks.py --merge FILE... --write docs/torch_checks.md

PyTorch ships `torch.testing._internal.distributed.distributed_test`: some 300 methods about collectives, object collectives, sub-groups,
DistributedDataParallel with its hooks and joins, and model averaging. The tests of FSDP2, tensor parallel, DTensor and pipelining are in
its repository only: DIR is the folder `test/distributed` of a copy. Each runs on the CPU in three ways: its ranks are processes over gloo,
processes over polyrhythm, or ranks in virtual time. In the second, a test that asks for gloo, or for what is usual on a CPU, gets the
other name. What gloo tells PyTorch's profiler is not looked for. Prints the counts and every test whose outcome differs. All of them take
hours: parts, of some files or in one way, leave FILEs, which `--merge` puts together; of a test that is in several the last one counts. It
needs the package expecttest beside the development tools.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
import traceback
import unittest
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranks_of_torch_tests import Asked

WAYS = ("gloo", "polyrhythm", "virtual time")
GLOO, OURS, VIRTUAL = WAYS
SHIPPED = "distributed_test"
GROUPS = {
    "c10d": "test_*.py",
    "FSDP2": "_composable/fsdp/test_*.py",
    "DTensor": "tensor/test_*.py",
    "tensor parallel": "tensor/parallel/test_*.py",
    "pipelining": "pipelining/test_*.py",
}
"""By name, which files of DIR."""
SECONDS = 120.0
"""The time for one test."""
REASONS = Path(__file__).with_suffix(".toml")
"""By test, why it does not pass with us, although it passes on gloo."""
Found = dict[str, tuple[str, str]]
"""By test, its outcome and what it said."""


class Outcomes(unittest.TestResult):
    """What became of each test that has ranks, written to `file` at once."""

    def __init__(self, asked: Asked, where: str, file: Path) -> None:
        super().__init__()
        self.asked = asked
        self.where = where
        self.file = file
        self.before = 0

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        self.before = self.asked.count
        signal.alarm(int(2 * SECONDS))  # for what runs without ranks

    def note(self, test: Any, outcome: str, detail: str = "") -> None:
        signal.alarm(0)
        name = f"{self.where}::{'.'.join(test.id().rsplit('.', 2)[-2:])}"
        if self.asked.count == self.before and outcome == "passes":
            return  # it has no ranks
        with self.file.open("a") as file:
            file.write(json.dumps((name, outcome, detail)) + "\n")
        print(f"{outcome:7} {name}", file=sys.stderr, flush=True)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self.note(test, "passes")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self.note(test, "skips", reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self.note(test, "fails", "".join(traceback.format_exception(*err)))

    addFailure = addError  # noqa: N815


def shipped(way: str) -> type[unittest.TestCase]:
    """The shipped methods as a test case. The module reads its environment when it is imported, and takes up what it knows of gloo."""
    from torch.testing._internal.distributed import distributed_test as theirs

    if way != GLOO:
        for supported in (theirs.PROFILING_SUPPORTED_BACKENDS, theirs.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            supported.clear()
    if way == VIRTUAL:
        theirs.Barrier.sync = meet

    class Checks(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):  # type: ignore[misc]
        """As torch's own files make it."""

    return Checks


def meet(ranks: int | None = None, timeout: float = 10.0) -> None:
    """What ranks do in virtual time in place of `Barrier.sync`, which counts in a variable of the process: wait for so many."""
    import torch.distributed as dist

    rank = dist.distributed_c10d._world
    rank.meetings = getattr(rank, "meetings", 0) + 1
    store = dist.TCPStore("localhost", 1)
    key, count = f"meeting {rank.meetings}", ranks or dist.get_world_size()
    if store.add(key, 1) == count:
        store.set(f"{key} is complete", "")
    store.wait([f"{key} is complete"], timedelta(seconds=timeout))


def suites(options: argparse.Namespace) -> Iterator[tuple[str, unittest.TestSuite]]:
    """The tests, by the name of their file."""
    loader = unittest.TestLoader()
    if options.only in SHIPPED:
        yield SHIPPED, loader.loadTestsFromTestCase(shipped(options.way))
    for pattern in GROUPS.values() if options.tests else ():
        for path in sorted(options.tests.glob(pattern)):
            name = str(path.relative_to(options.tests))
            if options.only in name:
                try:
                    yield name, loader.loadTestsFromModule(imported(path))
                except (Exception, unittest.SkipTest) as problem:
                    print(f"{name} cannot be imported: {problem!r}", file=sys.stderr)


def imported(path: Path) -> Any:
    """The file as a module, which finds its neighbours."""
    sys.path[:0] = [str(path.parent), str(path.parents[1])]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run_here(options: argparse.Namespace) -> None:
    """All tests in one way."""
    import torch.distributed as dist
    from ranks_of_torch_tests import Asked, Processes, Ranks, VirtualTime, put, put_in_place_of_gloo  # not where files are merged

    ranks: Ranks = VirtualTime(options.seconds) if options.way == VIRTUAL else Processes(options.seconds)
    asked = Asked(ranks)
    put(asked)
    if options.way == OURS:
        import polyrhythm.process_group  # noqa: F401

        put_in_place_of_gloo("polyrhythm")
    for name, suite in suites(options):
        suite.run(Outcomes(asked, name, options.child))
        if dist.is_initialized():  # some files leave a group behind
            dist.destroy_process_group()


def run_with(way: str, options: argparse.Namespace) -> Found:
    """The same in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        result.touch()
        environment = os.environ | {"BACKEND": "gloo", "WORLD_SIZE": str(options.ranks), "TEMP_DIR": folder, "OMP_NUM_THREADS": "1"}
        command = [
            sys.executable,
            __file__,
            "--child",
            str(result),
            "--way",
            way,
            "--only",
            options.only,
            "--seconds",
            str(options.seconds),
        ]
        tests = ["--tests", str(options.tests)] if options.tests else []
        subprocess.run([*command, *tests], env=environment, check=True, stdout=subprocess.DEVNULL)
        return {name: (outcome, detail) for name, outcome, detail in map(json.loads, result.read_text().splitlines())}


def merged(files: Sequence[Path]) -> dict[str, Found]:
    """The outcomes of all these files, by way."""
    found: dict[str, Found] = {way: {} for way in WAYS}
    for file in files:
        for way, outcomes in json.loads(file.read_text()).items():
            found[way] |= outcomes
    return found


def group_of(name: str) -> str:
    """The group of a test."""
    folders = {str(Path(pattern).parent): group for group, pattern in GROUPS.items()}
    return folders[str(Path(name.split("::")[0]).parent)]


def page(found: dict[str, Found], options: argparse.Namespace) -> str:
    """The outcomes as Markdown."""
    beside = "" if all(name.startswith(SHIPPED) for name in found[GLOO]) else " --tests DIR"
    lines = [
        "# PyTorch's own tests through polyrhythm",
        "",
        f"Written by `python benchmarks/pytorch_checks.py{beside} --write docs/torch_checks.md`: each",
        "test on gloo, with the backend `polyrhythm` in real processes, and with its ranks in virtual time. Only tests with ranks count.",
        *(["", options.origin] if options.origin else []),
        "",
        "| tests | gloo passes | of these polyrhythm | of these virtual time | gloo skips | gloo fails |",
        "|---|---|---|---|---|---|",
    ]
    theirs = found[GLOO]
    for group in GROUPS:
        names = [name for name in theirs if group_of(name) == group]
        passed = [name for name in names if theirs[name][0] == "passes"]
        both = [sum(found[way].get(name, ("",))[0] == "passes" for name in passed) for way in (OURS, VIRTUAL)]
        count = Counter(theirs[name][0] for name in names)
        lines.append(f"| {group} | {len(passed)} | {both[0]} | {both[1]} | {count['skips']} | {count['fails']} |")
    return "\n".join([*lines, *exceptions(found), *passing(found)]) + "\n"


def exceptions(found: dict[str, Found]) -> Iterator[str]:
    """Those that pass on gloo and not with us, with the reason."""
    reasons = tomllib.loads(REASONS.read_text()) if REASONS.exists() else {}
    for way in (OURS, VIRTUAL):
        yield from ("", f"## Pass on gloo, and not with {way}" if way == OURS else f"## Pass on gloo, and not in {way}", "")
        names = [
            name for name, (outcome, _) in found[GLOO].items() if outcome == "passes" and found[way].get(name, ("absent",))[0] != "passes"
        ]
        yield from (f"- `{name}`: {reasons.get(way, {}).get(name, 'not explained')}" for name in names)
        if not names:
            yield "None."


def passing(found: dict[str, Found]) -> Iterator[str]:
    """Those that pass in all three ways."""
    yield from ("", "## Pass in all three ways", "")
    for name in found[GLOO]:
        if all(found[way].get(name, ("absent",))[0] == "passes" for way in WAYS):
            yield f"- `{name}`"


def main() -> None:
    """Run all, compare, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4, help="those of the shipped tests")
    parser.add_argument("--tests", type=Path, help="the folder test/distributed of a copy of PyTorch's repository")
    parser.add_argument("--only", default="", help=f"only files whose name has this in it; the shipped ones are {SHIPPED}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the time for one test")
    parser.add_argument("--origin", default="", help="a sentence on where DIR is from")
    parser.add_argument("--write", type=Path, help="a Markdown page to write")
    parser.add_argument("--details", type=Path, help="a JSON file for all outcomes")
    parser.add_argument("--way", choices=WAYS, help="only this one, without a comparison")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="files of --details to compare, without running anything")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.merge and (options.way or options.details):
        parser.error("--merge compares what is in files: leave out --way and --details")
    if options.child:
        run_here(options)
        return
    ways = [options.way] if options.way else WAYS
    found = merged(options.merge) if options.merge else {way: run_with(way, options) for way in ways}
    if absent := [way for way in ways if options.merge and not found[way]]:
        parser.error(f"{', '.join(map(str, options.merge))} have no outcomes of {' and '.join(absent)}: give the files of all three ways")
    if options.details:
        options.details.write_text(json.dumps(found, indent=1))
    if options.way:
        return
    text = page(found, options)
    print(text[: text.index("## Pass in all")])
    if options.write:
        options.write.write_text(text)
    sys.exit("not explained" in text)


if __name__ == "__main__":
    main()
