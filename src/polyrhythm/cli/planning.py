"""A plan that was asked for on the command line: made, kept, and shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from polyrhythm import atomic
from polyrhythm.cli.calibrated import write_device
from polyrhythm.cli.failures import notice, show_error
from polyrhythm.cli.output import console, print_json, reserved
from polyrhythm.cli.prepare import Prepared, Typed, prepared
from polyrhythm.hardware import devices
from polyrhythm.planner.answer import INTERRUPTED, Plan
from polyrhythm.planner.page import write
from polyrhythm.planner.plan import HERE, PlanRequest
from polyrhythm.planner.planner import Planner
from polyrhythm.planner.table import show
from polyrhythm.planner.verify import Verification
from polyrhythm.report.progress import ProgressLine, board
from polyrhythm.training.calibrate import device_profile
from polyrhythm.units import show_seconds

_MAPS = 0.6
"""Maps may take this part of the budget beyond it."""
PLAN, PAGE = "plan.json", "plan.html"


@dataclass(frozen=True, slots=True)
class Planning:
    """What was asked for; `out` is where the plan is kept, `verify` how many choices are run for real, `asked` the command."""

    request: PlanRequest
    typed: Typed
    out: Path | None
    verify: int
    watched: bool
    asked: str

    def make(self, as_json: bool) -> Plan:
        """Make the plan, keep it, and print it; what is known by then if it is interrupted."""
        with reserved(as_json), prepared(self.typed) as loaded, board(1, self.watched) as line:
            plan = self._made(loaded, line)
        if self.out is not None:
            atomic.write(self.out / PLAN, msgspec.json.encode(plan))
        if as_json:
            print_json(plan)
        else:
            show(plan, console())
        if self.out is not None:
            notice(f"the plan is in {write(plan, self.out / PAGE, self.asked)}")
        return plan

    def _made(self, loaded: Prepared, line: ProgressLine) -> Plan:
        request = self._calibrated(loaded)
        planner: Planner

        def seen() -> None:
            best = planner.found.best
            known = (
                f"best so far {show_seconds(best)}" if request.objective == "time" and best < float("inf") else f"{planner.found.runs} runs"
            )
            line.remark(f"{known}, {max(0.0, planner.budget.left(1.0)):.0f} s left")

        invocation = self.request.invocation(self.typed.job, self.typed.arguments)
        planner = request.planner(loaded.train, self.typed.job, request.pool_with(line, seen), loaded.facts, invocation)
        plan = planner.plan()
        if plan.ended == INTERRUPTED:
            return plan
        try:
            if self.verify:
                line.remark(f"timing the steps of the best {self.verify} on this machine")
                plan = Verification(planner.found, planner.pool, lambda name, problem: show_error(problem, name)).correct(
                    plan, planner.contenders(self.verify)
                )
            if self.out is not None:
                plan.maps = planner.maps(_MAPS * request.budget)
        except KeyboardInterrupt:
            plan.ended = INTERRUPTED
        return plan

    def _calibrated(self, loaded: Prepared) -> PlanRequest:
        """With this machine as the device, if that was asked for; as it was measured before, where the plan goes on."""
        if self.request.devices != HERE:
            return self.request
        known = None if self.out is None else self.out / devices.FILE
        if known is not None and known.is_file():
            notice(f"this machine is as {known} has it; delete that file to time its steps anew")
            return replace(self.request, devices=devices.load(known))
        notice(f"timing steps of {self.typed.job} on this machine")
        profile = device_profile(loaded.train)
        if self.out is not None:
            write_device(self.out, profile)
        return replace(self.request, devices=profile)
