"""`polyrhythm serve run`: a site on Ray Serve, planned, started, watched, planned anew, and drained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import path_given, positive
from polyrhythm.tools.cli.serve_options import Machines, Models, Profiles, profiles_path

if TYPE_CHECKING:
    from polyrhythm.serving import ServingPlan
    from polyrhythm.serving.server.control_loop import ServedSite, ServingControl
    from polyrhythm.serving.server.ray_site import RayServe, RaySite
    from polyrhythm.serving.server.served_model import ServedModel

Planned = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", parser=path_given, help="The first plan; default: one for the rates in MODELS."),
]
Address = Annotated[str | None, typer.Option("--address", metavar="HOST:PORT", help="The Ray cluster; default: a new one on this host.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address at which HTTP requests are taken.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port there.")]
Drain = Annotated[float, typer.Option("--drain", metavar="SECONDS", min=0, help="How long to answer what was taken, at the end.")]
Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", parser=positive, help="How often a line about the sessions is printed.")
]
Lasts = Annotated[
    float | None, typer.Option("--for", metavar="SECONDS", parser=positive, help="End after so long; default: at Ctrl-C or SIGTERM.")
]


@guarded
def run(
    models: Models,
    machines: Machines,
    profiles: Profiles = None,
    plan: Planned = None,
    address: Address = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    drain: Drain = 10.0,
    every: Every = 10.0,
    lasts: Lasts = None,
) -> None:
    """Serve MODELS over HTTP by Ray Serve, until Ctrl-C; then what was taken is answered, and nothing more is taken."""
    import time

    from polyrhythm.serving.server.control_loop import ServingControl

    prepared = _prepared(models, machines, profiles_path(models, profiles), plan)
    site = _engine(prepared, address, host, port).deploy(prepared.served, prepared.models, prepared.first)
    try:
        _show(prepared.first)
        notice(f"serving at {site.url}/v2/models/SESSION/infer; Ctrl-C drains")
        loop = ServingControl(site, prepared.served, prepared.first, time.monotonic)
        controlled(loop, lambda: _watch(site, loop, every, lasts))
    except KeyboardInterrupt:
        notice("ending without the plan that is being installed")
    finally:
        site.drain(drain)
        notice("ended")


def controlled(loop: ServingControl, watch: Callable[[], None]) -> None:
    """Watch until it ends or is interrupted, and wait for a plan that is being installed: the site must not be drained below it."""
    try:
        watch()
    except KeyboardInterrupt:
        notice("draining: what was taken is answered")
    finally:
        loop.close()


@dataclass(frozen=True, slots=True)
class PreparedSite:
    """All that a site is started with."""

    served: ServedSite
    models: Mapping[tuple[str, str], ServedModel]
    first: ServingPlan
    ray: Mapping[str, Mapping[str, object]]


def _prepared(models: Path, machines: Path, profiles: Path, plan: Path | None) -> PreparedSite:
    """The files, read and checked. Raises PolyrhythmErrors for what cannot be served."""
    from polyrhythm.serving.prefix_family import FamilyChoice, joined, plan_families
    from polyrhythm.serving.server.control_loop import ServedSite
    from polyrhythm.serving.server.model_sources import served_models
    from polyrhythm.serving.serving_files import read_models, read_plan, read_profiles, read_site

    given, where = read_models(models), read_site(machines)
    measured = read_profiles(profiles)
    site = where.served()
    sessions, families, rules = given.served(), given.prefix_families(measured), where.planning()
    if not sessions:
        raise CompositionError(f"{models} has no sessions: give [[sessions]], each with a name, a model, an slo and a rate.")
    written = None if plan is None else read_plan(plan)
    if written is not None:  # it says by its sessions which families it uses
        families = tuple(each for each in families if each.prefix in written.routes)
    chosen = plan_families(sessions, site, measured, families, rules)
    if written is not None:
        chosen = reduce(joined, families, FamilyChoice(written, sessions, measured, ()))
    for weighed in chosen.weighed:
        notice(weighed.sentence)
    served = ServedSite(chosen.sessions, site, chosen.profiles, rules, where.controlling(), chosen.members)
    first = served.plan({}, frozenset(), None) if written is None else written
    if first.unserved:
        refused = first.unserved[0]
        raise CompositionError(f"The session {refused.session!r} cannot be served: {refused.reason}")
    loaded = served_models(given, models.parent, [each.kind for each in site], measured)
    return PreparedSite(served, loaded, first, where.ray())


def _engine(prepared: PreparedSite, address: str | None, host: str, port: int) -> RayServe:
    from polyrhythm.serving.server.gateway import GatewayRules
    from polyrhythm.serving.server.ray_site import RayServe

    return RayServe(address, host, port, options=prepared.ray, gateway=GatewayRules(network=prepared.served.rules.network))


def _watch(site: RaySite, loop: ServingControl, every: float, lasts: float | None) -> None:
    """Beacons, plans and lines about them, until the time is over or a signal comes."""
    import time

    begun = said = turned = time.monotonic()
    beacon, told = loop.beacon, 0
    before: Mapping[tuple[str, str], int] = {}
    while lasts is None or time.monotonic() - begun < lasts:
        turned += beacon
        time.sleep(max(0.0, turned - time.monotonic()))
        turned = max(turned, time.monotonic() - beacon)  # a turn that took long is not made up for
        loop.turn()
        for change in loop.changes[told:]:
            told += 1
            took = f"{change.ended - change.begun:.1f} s"
            became = f"installed in {took}" if change.installed else f"given up after {took}: the one before serves on"
            notice(f"a new plan ({change.reason}), {became}")
            for problem in change.problems:
                notice(problem)
            _show(change.plan)
        if time.monotonic() - said >= every:
            now = site.outcomes()
            notice(_line(now, before, time.monotonic() - said))
            before, said = now, time.monotonic()


def _line(now: Mapping[tuple[str, str], int], before: Mapping[tuple[str, str], int], seconds: float) -> str:
    """Requests per second of each session and what became of them, since the last line."""
    sessions: dict[str, dict[str, int]] = {}
    for (session, outcome), count in sorted(now.items()):
        since = count - before.get((session, outcome), 0)
        if since > 0:
            sessions.setdefault(session, {})[outcome] = since
    parts = []
    for session, outcomes in sessions.items():
        total = sum(outcomes.values())
        shares = ", ".join(f"{outcome} {count / total:.1%}" for outcome, count in outcomes.items())
        parts.append(f"{session} {total / seconds:.1f}/s ({shares})")
    return "; ".join(parts) or "no requests"


def _show(plan: ServingPlan) -> None:
    """The plan as a table."""
    from polyrhythm.core.units import show_seconds
    from polyrhythm.tools.cli.output import print_rows

    rows = [
        [
            each.machine.name,
            slot.session,
            slot.model,
            str(slot.batch),
            show_seconds(slot.seconds),
            show_seconds(each.duty),
            f"{slot.rate:.1f}",
        ]
        for each in plan.machines
        for slot in each.slots
    ]
    print_rows(["machine", "session", "model", "batch", "its time", "duty cycle", "requests/s"], rows)
