"""A plan that was asked for on the command line: made, kept, and shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import msgspec

from polyrhythm.core import atomic
from polyrhythm.core.records.job_output import kept_out
from polyrhythm.core.records.progress import ProgressLine, board
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import devices
from polyrhythm.tools.cli.calibrated import write_device
from polyrhythm.tools.cli.failures import notice, show_error
from polyrhythm.tools.cli.output import console, print_json, reserved, silent
from polyrhythm.tools.cli.prepare import Prepared, Typed, prepared
from polyrhythm.tools.measuring.machine_speed import machine_here
from polyrhythm.tools.planner.answer import INTERRUPTED, Plan, PresentAnswer
from polyrhythm.tools.planner.certainty import present
from polyrhythm.tools.planner.change_now import advice, run_own
from polyrhythm.tools.planner.page import write
from polyrhythm.tools.planner.plan import HERE, PlanRequest
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.recorded import RecordedRun
from polyrhythm.tools.planner.table import show
from polyrhythm.tools.planner.verify import Verification

_MAPS = 0.6
"""Maps may take this part of the budget beyond it."""
PLAN, PAGE = "plan.json", "plan.html"


@dataclass(frozen=True, slots=True)
class Planning:
    """The typed request for a plan; the plan is kept in `out`, `verify` choices are run for real, and `asked` is the command.

    From a `recorded` run it also says what to change in that now.
    """

    request: PlanRequest
    typed: Typed
    out: Path | None
    verify: int
    watched: bool
    asked: str
    recorded: RecordedRun | None = None

    def make(self, as_json: bool) -> Plan:
        """Make the plan, keep it, and print it; what is known by then if it is interrupted."""
        with reserved(as_json), prepared(self.typed) as loaded, board(1, self.watched) as line:
            plan = self._made(loaded, line)
        give(plan, self.out, self.asked, as_json)
        return plan

    def _made(self, loaded: Prepared, line: ProgressLine) -> Plan:
        request = self._calibrated(loaded)
        planner: Planner

        answer = ""

        def stands(standing: PresentAnswer) -> None:
            nonlocal answer
            answer = f"{present(standing)}, "

        def seen() -> None:
            line.remark(f"{answer}{planner.found.runs} runs, {max(0.0, planner.budget.left(1.0)):.0f} s left")

        invocation = request.invocation(self.typed.job, self.typed.arguments)
        planner = request.planner(loaded.train, self.typed.job, request.pool_with(line, seen), loaded.facts, invocation)
        planner.on_answer = stands
        planner.on_remark = lambda text: line.say(f"polyrhythm: {text}")
        with kept_out(line.output):
            plan = planner.plan()
            if self.recorded is not None and plan.ended != INTERRUPTED:
                run_own(self.recorded, planner)
                plan.remarks.insert(0, advice(self.recorded, planner))
        if plan.ended == INTERRUPTED:
            return plan
        try:
            if self.verify:
                line.remark(f"timing the steps of the best {self.verify} on this machine")
                plan = Verification(planner.found, planner.pool, lambda name, problem: show_error(problem, name)).correct(
                    plan, planner.contenders(self.verify)
                )
            if self.out is not None:
                with kept_out(line.output):
                    plan.maps = planner.maps(_MAPS * request.budget)
        except KeyboardInterrupt:
            plan.ended = INTERRUPTED
        return plan

    def _calibrated(self, loaded: Prepared) -> PlanRequest:
        """The request with this machine as the device, if that was asked for; with its earlier measurement, where the plan continues."""
        if self.request.devices != HERE:
            return self.request
        known = None if self.out is None else self.out / devices.FILE
        if known is not None and known.is_file():
            notice(f"this machine is as {known} has it; delete that file to time its steps anew")
            return replace(self.request, devices=known)
        notice(f"timing steps of {self.typed.job} on this machine, for the plan to be about such machines; --devices names others")
        try:
            with silent():
                machine = machine_here(loaded.train, self.typed.job, self.request.settings)
        except CompositionError as problem:
            raise CompositionError(f"Steps of {self.typed.job} cannot be timed here: {problem} Or give --devices cpu-core.") from problem
        return replace(self.request, devices=write_device(self.out or _kept_for(self.typed.job), machine))


def _kept_for(job: str) -> Path:
    """A directory of this user for what was timed of the JOB: the printed commands name the file, so that it must outlive this process."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    label = re.sub(r"[^A-Za-z0-9]+", "-", Path(job).name).strip("-")
    where = f"{label}-{sha256(f'{Path.cwd()} {job}'.encode()).hexdigest()[:8]}"
    directory = cache / "polyrhythm" / where
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def give(plan: Plan, out: Path | None, asked: str, as_json: bool) -> None:
    """Print a plan, and keep it below `out` with its page, on which `asked` is the command that makes it again."""
    if out is not None:
        atomic.write(out / PLAN, msgspec.json.encode(plan))
    if as_json:
        print_json(plan)
    else:
        show(plan, console())
    if out is not None:
        notice(f"the plan is in {write(plan, out / PAGE, asked)}")
