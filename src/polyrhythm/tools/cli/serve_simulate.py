"""`polyrhythm serve simulate`: a load on a site in virtual time, with the batcher, the routes and the control loop of a server."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Json, Seed, path_given, positive
from polyrhythm.tools.cli.serve_options import Machines, Models, Profiles, profiles_path

if TYPE_CHECKING:
    from polyrhythm.serving import ArrivalProcess, ServedLoad, ServingPlan, ServingSession

Seconds = Annotated[float, typer.Option("--seconds", metavar="S", parser=positive, help="How long requests come, in virtual seconds.")]
Load = Annotated[float, typer.Option("--load", metavar="FACTOR", parser=positive, help="The rates of MODELS are multiplied by it.")]
Kind = Annotated[
    str,
    typer.Option(
        "--arrivals", metavar="poisson|bursty|even|TRACE.csv", help="How requests come; a trace has the columns seconds and session."
    ),
]
Step = Annotated[
    list[str] | None,
    typer.Option("--step", metavar="SESSION=FACTOR@SECONDS", help="That session's rate is FACTOR times as high from then on; may repeat."),
]
Lost = Annotated[
    list[str] | None, typer.Option("--lose", metavar="MACHINE@SECONDS", help="That machine is lost at that moment; may be repeated.")
]
Fixed = Annotated[bool, typer.Option("--fixed", help="Keep the first plan, without a control loop.")]
Report = Annotated[Path | None, typer.Option("--report", metavar="FILE", parser=path_given, help="Write a page with charts to this file.")]


@guarded
def simulate(
    models: Models,
    machines: Machines,
    profiles: Profiles = None,
    seconds: Seconds = 60.0,
    load: Load = 1.0,
    arrivals: Kind = "poisson",
    step: Step = None,
    lose: Lost = None,
    fixed: Fixed = False,
    seed: Seed = 0,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Play requests for MODELS on the machines of SITE in virtual time, and say which were answered in time."""
    from polyrhythm.serving import OfferedLoad, SimulatedSite, plan_families, simulate_serving
    from polyrhythm.serving.serving_files import read_models, read_profiles, read_site
    from polyrhythm.tools.cli.prepare import refuse_unwritable

    given, where = read_models(models), read_site(machines)
    refuse_unwritable(report, "--report")
    measured, rules = read_profiles(profiles_path(models, profiles)), where.planning()
    sessions = given.divided(measured, rules)
    offered = [replace(one, rate=one.rate * load) for one in sessions]
    chosen = plan_families(sessions, where.served(), measured, given.prefix_families(measured), rules)
    site = SimulatedSite(
        chosen.sessions,
        where.served(),
        chosen.profiles,
        rules,
        control=None if fixed else where.controlling(),
        losses=dict(_at(each) for each in lose or ()),
        members=chosen.members,
    )
    played = simulate_serving(site, OfferedLoad(_arrivals(arrivals, offered, step or ()), seconds, seed))
    _show(played, as_json)
    if report is not None:
        from polyrhythm.tools.report.serving import write_serving_page

        page = write_serving_page(played, report, seconds, shlex.join(["polyrhythm", *sys.argv[1:]]))
        notice(f"the page is in {page}")
    if not any(each.good for each in played.tally().values()):
        raise typer.Exit(1)


def _arrivals(kind: str, offered: list[ServingSession], steps: list[str] | tuple[str, ...]) -> dict[str, ArrivalProcess]:
    """The arrivals of each session. Raises PolyrhythmErrors for a kind, a session or a step that is none."""
    from polyrhythm.serving import BurstyArrivals, EvenArrivals, PoissonArrivals, SteppedArrivals, read_trace

    kinds = {"poisson": PoissonArrivals, "bursty": BurstyArrivals, "even": EvenArrivals}
    if kind.endswith(".csv"):
        return dict(read_trace(kind))
    if kind not in kinds:
        raise unknown("kind of arrivals", kind, list(kinds))
    made: dict[str, ArrivalProcess] = {one.name: kinds[kind](one.rate) for one in offered if one.rate > 0}
    rates = {one.name: one.rate for one in offered}
    for each in steps:
        name, _, rest = each.partition("=")
        factor, moment = _at(rest)
        if name not in rates:
            raise unknown("session", name, list(rates))
        if kind != "poisson":
            raise CompositionError(f"--step {each} is for Poisson's arrivals, and --arrivals {kind} was given: leave one of them out.")
        made[name] = SteppedArrivals(((0.0, rates[name]), (moment, rates[name] * _number(factor, each))))
    return made


def _at(given: str) -> tuple[str, float]:
    """The text before @, and the seconds after it."""
    name, _, moment = given.rpartition("@")
    if not name:
        raise CompositionError(f"{given!r} has no moment: write it as NAME@SECONDS, such as box-1@30.")
    return name, _number(moment, given)


def _number(text: str, given: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CompositionError(f"{text!r} in {given!r} is no number: give one, such as 30 or 2.5.") from None


def _show(played: ServedLoad, as_json: bool) -> None:
    from polyrhythm.tools.cli.output import console, print_json, print_rows
    from polyrhythm.tools.report.serving import SESSION_COLUMNS, session_rows, unpromised_sentences, unserved_sentences

    if as_json:
        tally = played.tally()
        sessions = {
            name: {
                "requests": each.offered,
                "good": each.good,
                "late": each.late,
                "dropped": each.dropped,
                "rejected": each.rejected,
                "good_rate": each.good_rate,
                "p50": each.percentile(50),
                "p99": each.percentile(99),
            }
            for name, each in tally.items()
        }
        plans = [
            {"seconds": moment, "reason": reason, "machines": len(made.machines), "cost": made.cost}
            for moment, reason, made in played.plans
        ]
        print_json({"sessions": sessions, "plans": plans, "most_bytes": played.most_bytes, "makespan": played.makespan})
        return
    out = console()
    if lacking := unserved_sentences(played.plans[0][2]):
        out.print("The first plan does not serve all:")
        for sentence in lacking:
            out.print(sentence)
        out.print()
    print_rows(SESSION_COLUMNS, session_rows(played))
    for sentence in unpromised_sentences(played):
        out.print(sentence)
    changes = [f"{reason} at {moment:.0f} s ({_machines(made)})" for moment, reason, made in played.plans[1:]]
    out.print(f"\n{_machines(played.plans[0][2])} at first; plans changed: " + ("; ".join(changes) or "never") + ".")


def _machines(plan: ServingPlan) -> str:
    count = len(plan.machines)
    return f"{count} machine{'s' * (count != 1)}"
