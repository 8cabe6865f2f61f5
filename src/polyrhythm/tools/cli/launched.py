"""The command that an engine starts for each worker: `polyrhythm join JOB`, or the user's own script."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.launchers import ENGINES, LAUNCHED
from polyrhythm.launchers.submission import Submission, WorkerCommand
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.pairs import pairs
from polyrhythm.tools.cli.prepare import own_arguments
from polyrhythm.tools.cli.presets import compose
from polyrhythm.tools.cli.runtimes import runtime
from polyrhythm.workloads.load import file_of, is_bundled, load_workload

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A JOB as it was typed: its own arguments, and the `flags` of `polyrhythm join`, except --resume.

    `kept` is whether it writes checkpoints.
    """

    job: str
    arguments: Sequence[str]
    workers: int
    flags: Sequence[str]
    resume: bool
    kept: bool

    def check(self, system: str, options: Sequence[str], settings: Sequence[str]) -> None:
        """Raises PolyrhythmErrors for what every worker would refuse. A file that is only where the workers run is not looked at."""
        strategy = compose(system, pairs(options, "--option"))
        if strategy.workers(self.workers) != self.workers:
            raise CompositionError(f"{strategy.name} uses {strategy.workers(self.workers)} workers, not {self.workers}: give --workers so.")
        if self.is_script:
            if self.flags or self.resume:
                raise CompositionError(
                    f"{self.job} is a complete script, which gives pr.join all options: leave {self._shown} out, or write the training "
                    "into a function train(worker)."
                )
        elif is_bundled(self.job) or (file := file_of(self.job)) is None or file.exists():
            with own_arguments(self.job, self.arguments):
                load_workload(self.job, pairs(settings, "--set"))

    @property
    def is_script(self) -> bool:
        """True if the JOB is a file that joins by itself, as far as can be seen in its text."""
        file = file_of(self.job)
        if file is None or str(file) != self.job or not file.is_file():
            return False
        return _calls_join(file) and not _defines_train(file)

    def command(self) -> WorkerCommand:
        """The command that each worker runs."""
        name = _label(Path(self.job.partition(":")[0]).stem)
        if self.is_script:
            own = [self.job, *self.arguments]
            return WorkerCommand(name, self.workers, own, own)
        before = ["-m", "polyrhythm", "join", self.job, *self.flags]
        after = ["--", *self.arguments] if self.arguments else []
        first = [*before, *(["--resume"] if self.resume else []), *after]
        return WorkerCommand(name, self.workers, first, [*before, "--resume", *after] if self.kept else first)

    @property
    def _shown(self) -> str:
        return " ".join([*self.flags, *(["--resume"] if self.resume else [])])


def submission(on: str, options: Sequence[str], wanted: LaunchRequest) -> Submission:
    """The engine `on`'s submission of it. Raises UnknownNameError or CompositionError for engines and options that are not to be had."""
    if on in ENGINES and on not in LAUNCHED:
        raise CompositionError(f"{on} starts workers for a driver only: use polyrhythm run --on {on}, or give --on {', '.join(LAUNCHED)}.")
    if on not in LAUNCHED:
        raise unknown("engine", on, LAUNCHED)
    chosen: Any = runtime(RuntimeOptions(on=on, engine=list(options)), 0)
    submitted: Submission = chosen.submission(wanted.command())
    return submitted


def _label(text: str) -> str:
    """`text` as engines take it for a name: small letters, digits and hyphens, a letter first."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LONGEST_NAME].strip("-")
    return label if label[:1].isalpha() else f"job-{label}".rstrip("-")


def _defines_train(file: Path) -> bool:
    names = set()
    for node in _parsed(file).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return "train" in names


def _calls_join(file: Path) -> bool:
    for node in ast.walk(_parsed(file)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pr" | "polyrhythm"), attr="join") | ast.Name(id="join")):
                return True
    return False


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])  # reported with its line when it is loaded
