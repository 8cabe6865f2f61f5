"""A plan by proxies that was asked for on the command line: made, kept, and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.core.records.job_output import kept_out
from polyrhythm.core.records.progress import board
from polyrhythm.tools.cli.output import reserved
from polyrhythm.tools.cli.planning import give
from polyrhythm.tools.cli.prepare import Typed, prepared
from polyrhythm.tools.planner.answer import Plan
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.proxy.proxy_request import ProxyPlanning, ProxyRequest


@dataclass(frozen=True, slots=True)
class TypedProxyPlan:
    """The typed request for a plan by the `sizes` of --proxy; the plan is kept in `out`, and `asked` is the command."""

    request: PlanRequest
    sizes: Sequence[str]
    typed: Typed
    out: Path | None
    watched: bool
    asked: str

    def make(self, as_json: bool) -> Plan:
        """Make the plan, keep it, and print it."""
        request = ProxyRequest(self.request, self.sizes)
        with reserved(as_json), prepared(self.typed) as loaded, board(1, self.watched) as line, kept_out(line.output):
            invocation = self.request.invocation(self.typed.job, self.typed.arguments)
            pool = self.request.pool_with(line)
            plan = ProxyPlanning(request, loaded.train, self.typed.job, pool, invocation, loaded.facts, line.remark).plan()
        give(plan, self.out, self.asked, as_json)
        return plan
