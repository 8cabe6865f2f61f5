"""Scripts of torch.distributed as what commands run: told from jobs by their text, and made into runs in virtual time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.location import unplaced
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.pairs import refuse_without_system
from polyrhythm.tools.cli.planned_run import COMMAND, recorded_or_not
from polyrhythm.tools.cli.prepare import Typed, file_facts
from polyrhythm.tools.cli.runtimes import runtime
from polyrhythm.torch_programs.program import ScriptProgram
from polyrhythm.torch_programs.program_run import SYSTEM, ProgramRun
from polyrhythm.torch_programs.rank_settings import RankSettings

SEED = "{seed}"
"""In an argument of a script, the seed of the run."""
_JOINS = {"init_process_group", "init_device_mesh"}
_LIBRARIES = {"accelerate", "transformers", "lightning", "deepspeed", "torchtitan"}
_DISTRIBUTED = ("torch.distributed", "torch.multiprocessing")


def is_script(job: str) -> bool:
    """True for a file of Python that itself joins a group of torch.distributed, or that has libraries do so and defines no `train`.

    `train.py:function` is a job in any case.
    """
    path = Path(job)
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return False
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    if any((each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")) in _JOINS for each in called):
        return True
    return "train" not in _defined(tree) and any(
        name.startswith(_DISTRIBUTED) or name.partition(".")[0] in _LIBRARIES for name in _imported(tree)
    )


def _defined(tree: ast.Module) -> set[str]:
    """The names that the file defines at its top."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name for each in node.names}
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def with_options(program: ScriptProgram, settings: Mapping[str, Any], seed: int) -> ScriptProgram:
    """The script with further options: lr=0.1 is --lr 0.1; its arguments have `seed` in the place of {seed}."""
    own = [each.replace(SEED, str(seed)) for each in program.arguments]
    added = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    return ScriptProgram(program.path, (*own, *added))


@dataclass(frozen=True, slots=True)
class PlannedScript:
    """One run of a script: `name` is its name in progress and errors, `place` its directory below --out."""

    name: str
    place: str
    run: ProgramRun

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run, with its record in `directory` if one can be started there."""
        return recorded_or_not(lambda where: self.run.attempt(where, watch), directory)

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        on = self.run.on
        summary = Summary(self.run.system, self.run.ranks or 0, on.kind, on.network_name, on.seed, error=str(error))
        return Attempt(Outcome(summary, state="failed"), error)

    def decisive(self) -> dict[str, Any]:
        """What decides the outcome, as the record of the run has it."""
        known = {name: text for name, text in self.run.recorded().items() if name != COMMAND}
        ranks = {} if self.run.ranks is None else {"workers": self.run.ranks}
        return {**known, "seed": self.run.on.seed, **ranks}

    def is_whole(self, outcome: Outcome) -> bool:
        """True if the record has all: scripts keep their weights themselves."""
        return True


@dataclass(frozen=True, slots=True)
class PreparedScript:
    """A script that can be run; of what it prints, `metric` is read."""

    typed: Typed
    facts: Mapping[str, str]
    metric: str

    def plan(
        self, name: str, place: str, strategy: Strategy | None, settings: Mapping[str, Any], seed: int, notes: Mapping[str, str]
    ) -> PlannedScript:
        """One run of it, with `notes` in its record."""
        if self.typed.where.shares is not None:
            raise CompositionError(f"--shares {self.typed.where.shares} is for jobs: a script takes its own batches. Leave it out.")
        on = replace(_virtual(self.typed), seed=seed)
        program = with_options(ScriptProgram(Path(self.typed.job), tuple(self.typed.arguments)), settings, seed)
        ranks = self.typed.workers if self.typed.counts else None
        run = ProgramRun(program, ranks, on, RankSettings(strategy, self.metric), notes={**self.facts, **notes})
        return PlannedScript(name, place, run)

    def at(self, given: Typed) -> PreparedScript:
        """The same script on other machines."""
        return PreparedScript(given, _facts(given), self.metric)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Any settings may be options of the script, which refuses them itself."""

    def share_batch(self, total: int, strategies: Mapping[str, Strategy | None]) -> dict[str, dict[str, str]]:
        """Refused: only the script knows how many ranks divide a batch."""
        raise CompositionError(
            f"--global-batch {total} is for jobs: a script divides its batch itself. Give its own option, such as --set batch-size=8."
        )


class Scripts:
    """Scripts of torch.distributed: run as they are, or with a system on the axis where they call `pr.join()`."""

    counts: tuple[int, ...] = ()
    usual: str | None = None

    def settled(self, where: RuntimeOptions) -> RuntimeOptions:
        """In virtual time, where nothing else was given."""
        return replace(where, on=where.on or "simulator")

    def unnamed(self, options: Mapping[str, str]) -> dict[str, Strategy | None]:
        """The script as it is."""
        refuse_without_system(options, "--systems")
        return {SYSTEM: None}

    def fitting(self, strategies: Mapping[str, Strategy | None], given: Typed) -> dict[str, Strategy | None]:
        """The strategies that ranks can have: all workers exchange messages with each other, and there are no servers."""
        return {name: each for name, each in strategies.items() if each is not None and exchanges(each)}

    @contextmanager
    def prepared(self, given: Typed, metric: str) -> Iterator[PreparedScript]:
        """The script. Raises PolyrhythmErrors for machines that are no simulated ones."""
        _virtual(given)
        yield PreparedScript(given, _facts(given), metric)


def _virtual(given: Typed) -> Simulator:
    on = runtime(given.where, 0)
    if not isinstance(on, Simulator):
        raise CompositionError(
            f"{given.job} is a script of torch.distributed, which runs in virtual time: leave out --on {given.where.on}, or start it with "
            "torchrun, on real processes."
        )
    return on


def _facts(given: Typed) -> dict[str, str]:
    return {"job sha256": sha256(Path(given.job).read_bytes()).hexdigest(), **file_facts(given.where)}


def exchanges(strategy: Strategy) -> bool:
    """True if ranks can have it: all workers exchange messages with each other, and there are no servers."""
    return not strategy.shares_memory and strategy.workers(2) == 2 and not StrategyPlan.of(strategy, unplaced(2), 0).servers
