"""The part of `polyrhythm plan` that is for scripts of torch.distributed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from polyrhythm.core import atomic
from polyrhythm.core.kernel.stopping import stoppable
from polyrhythm.core.records.job_output import kept_out
from polyrhythm.core.records.progress import board
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.errors import CompositionError
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.cli.failures import notice
from polyrhythm.tools.cli.output import console, print_json, print_rows, reserved
from polyrhythm.tools.cli.scripts import exchanges, with_options
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate, show
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.plan import HERE, PlanRequest
from polyrhythm.tools.planner.script_search import ScriptSearch
from polyrhythm.torch_programs.program import ScriptProgram
from polyrhythm.torch_programs.program_run import ProgramRun
from polyrhythm.torch_programs.rank_settings import RankSettings

_SHOWN = 10


class ScriptChoice(msgspec.Struct):
    """A way to run the script: what it took to the target in virtual time, and the commands that run it so."""

    name: str
    system: str
    workers: int
    options: dict[str, object]
    seconds: float
    bytes_sent: float
    cost: float
    command: str
    torchrun: str


class ScriptPlan(msgspec.Struct):
    """The object that `polyrhythm plan SCRIPT --json` prints; `others` are those that did not come to the target, with the reasons."""

    script: str
    target: str
    objective: str
    network: str
    choices: list[ScriptChoice]
    others: dict[str, str]


@dataclass(frozen=True, slots=True)
class ScriptPlanning:
    """A plan for `script` with these `arguments`. Raises CompositionError for what a script cannot be planned with."""

    request: PlanRequest
    script: str
    arguments: Sequence[str]

    def __post_init__(self) -> None:
        given = self.request
        for flag, value in (("--memory", given.memory), ("--interruptions", given.interruptions)):
            if value is not None:
                raise CompositionError(f"{flag} is for jobs, and {self.script} is a script of torch.distributed: leave it out.")

    def make(self, watched: bool) -> ScriptPlan:
        """Search, and answer with what is known when the time is up."""
        request = self.request
        names = request.systems or [name for name, make in SYSTEMS.items() if exchanges(make())]
        with board(1, watched) as line, kept_out(line.output), stoppable():
            search = ScriptSearch(
                self._run,
                request.goal,
                Objective(request.objective, request.prices),
                tuple(names),
                tuple(request.workers),
                request.pool_with(line),
                Budget(request.budget),
            )
            with suppress(KeyboardInterrupt):
                search.run()
        ranked = search.ranked()
        others = {each.name: search.why(each) for each in search.found if each not in ranked}
        choices = [self._choice(search, each) for each in ranked]
        return ScriptPlan(self.script, str(request.goal), request.objective, self._on().network_name or "", choices, others)

    def _on(self) -> Simulator:
        request = self.request
        return Simulator(network=request.network, devices="cpu-core" if request.devices == HERE else request.devices, seed=request.seed)

    def _run(self, candidate: Candidate) -> ProgramRun:
        program = with_options(ScriptProgram(Path(self.script), tuple(self.arguments)), self.request.settings, self.request.seed)
        settings = RankSettings(candidate.strategy, self.request.goal.metric)
        return ProgramRun(program, candidate.workers, self._on(), settings)

    def _choice(self, search: ScriptSearch, candidate: Candidate) -> ScriptChoice:
        end = search.found[candidate].end
        assert end is not None
        options = [f"{key}={show(value)}" for key, value in candidate.options]
        run = str(self._run(candidate).main)
        machines = [
            part for flag, value in (("--network", self.request.network), ("--device", self._on().devices)) for part in (flag, str(value))
        ]
        own = [part for each in options for part in ("--option", each)]
        command = shlex.join(["polyrhythm", "simulate", "--workers", str(candidate.workers), *machines, "--system", candidate.system, *own])
        system = shlex.quote(" ".join([candidate.system, *options]))
        return ScriptChoice(
            candidate.name,
            candidate.system,
            candidate.workers,
            dict(candidate.options),
            end.seconds,
            end.nbytes,
            search.cost(candidate),
            f"{command} --to {shlex.quote(self.request.target)} {run}",
            f"POLYRHYTHM_SYSTEM={system} torchrun --nproc-per-node {candidate.workers} {run}",
        )


def plan_script(planning: ScriptPlanning, out: Path | None, as_json: bool, watched: bool) -> int:
    """Make the plan, keep it and print it; returns the exit code, 1 where nothing came to the target."""
    with reserved(as_json):
        plan = planning.make(watched)
    if out is not None:
        atomic.write(out / "plan.json", msgspec.json.encode(plan))
        notice(f"the plan is in {out / 'plan.json'}")
    if as_json:
        print_json(plan)
    else:
        _show(plan)
    return 0 if plan.choices else 1


def _show(plan: ScriptPlan) -> None:
    out = console()
    if plan.choices:
        best = plan.choices[0]
        out.print(
            f"The least {plan.objective} to {plan.target} over {plan.network}: {best.name}, {show_seconds(best.seconds)} of virtual time."
        )
        rows = [[each.name, show_seconds(each.seconds), show_bytes(each.bytes_sent), f"{each.cost:.4g}"] for each in plan.choices[:_SHOWN]]
        print_rows(["", f"to {plan.target}", "bytes sent", plan.objective], rows)
        out.print(f"\nIn virtual time:\n  {best.command}\nFor real:\n  {best.torchrun}", soft_wrap=True)
    else:
        out.print(f"No way to {plan.target} was found over {plan.network}.")
    for name, why in plan.others.items():
        out.print(f"not {name}: {why}")
