"""A plan by proxies as a plan: its choices are those of any plan, none of which has run."""

from __future__ import annotations

from polyrhythm.tools.planner.answer import Choice, Plan, Refusal
from polyrhythm.tools.planner.objective import Prices, Spent
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyChoice, ProxyPlan

_ENDED = "smaller models were trained"


def as_plan(found: ProxyPlan, request: PlanRequest) -> Plan:
    """The plan whose details are `found`."""
    choices = [_choice(each, request.prices) for each in found.choices]
    return Plan(
        job=found.job,
        target=found.target,
        objective=request.objective,
        network=found.network,
        devices=found.devices,
        workers=list(request.workers),
        choices=choices,
        alone=next((each for each in choices if each.is_alone), None),
        refused=[Refusal(name, reason) for name, reason in found.refused.items()],
        remedies=[],
        maps=[],
        runs=found.runs,
        kept=found.kept,
        seconds=found.seconds,
        ended=_ENDED,
        seeds=found.seeds,
        remarks=found.remarks,
        obstacle=found.obstacle,
        proxy=found,
    )


def _choice(found: ProxyChoice, prices: Prices) -> Choice:
    spent = Spent(found.seconds.middle, found.nbytes.middle, found.workers)
    return Choice(
        name=found.name,
        system=found.system,
        workers=found.workers,
        options=found.options,
        settings=found.settings,
        reached=0,
        seeds=0,
        seconds=found.seconds,
        nbytes=found.nbytes.middle,
        samples=found.samples.middle,
        cost=found.seconds.middle,
        quality=None,
        shortfall=None,
        memory=None,
        money=spent.money(prices) if prices.worker_hour or prices.gigabyte else None,
        energy=spent.energy(prices),
        command=found.command,
        code=found.code,
        rehearsal=found.rehearsal,
    )
