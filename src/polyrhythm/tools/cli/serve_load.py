"""`polyrhythm serve load`: requests in an open loop over HTTP, measured from the moments at which they were due."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError, RunError, unknown
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json, Seed, path_given, positive
from polyrhythm.tools.cli.serve_options import Models

if TYPE_CHECKING:
    from polyrhythm.serving.server.open_loop import LoadReport

Url = Annotated[str, typer.Option("--url", metavar="URL", help="The address of the server.")]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", parser=positive, help="How long requests come.")]
Factor = Annotated[float, typer.Option("--factor", metavar="F", parser=positive, help="Times the rates of MODELS.")]
Session = Annotated[list[str] | None, typer.Option("--session", metavar="NAME[=RATE]", help="Only these, at this rate; may be repeated.")]
Trace = Annotated[
    Path | None, typer.Option("--trace", metavar="CSV", parser=path_given, help="Recorded moments: columns seconds and session.")
]


@guarded
def load(
    models: Models,
    url: Url = "http://127.0.0.1:8000",
    seconds: Seconds = 10.0,
    factor: Factor = 1.0,
    session: Session = None,
    trace: Trace = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Send requests of the sessions in MODELS to a server that `serve run` has started, as Poisson's arrivals or from a trace."""
    import asyncio

    from polyrhythm.serving.server.model_sources import form_of
    from polyrhythm.serving.server.open_loop import load_target, offer, reports, schedule
    from polyrhythm.serving.serving_files import read_models
    from polyrhythm.serving.simulation.arrivals import poisson, read_trace
    from polyrhythm.serving.simulation.settings import OfferedLoad
    from polyrhythm.tools.cli.output import print_json

    given = read_models(models)
    by_name = {one.name: one for one in given.served()}
    rates = _chosen({name: one.rate * factor for name, one in by_name.items()}, session or [], models)
    entries = {each.name: each for each in given.models}
    targets = {name: load_target(form_of(entries[one.model], models.parent).example(), one.slo) for name, one in by_name.items()}
    arrivals = poisson(rates) if trace is None else read_trace(trace)
    if unknown := sorted(set(arrivals) - set(by_name)):
        raise CompositionError(f"{trace} has requests for {unknown[0]!r}, and {models} has the sessions {', '.join(by_name)}.")
    due = schedule(OfferedLoad(arrivals, seconds, seed))
    requests = asyncio.run(offer(url.rstrip("/"), due, targets))
    if requests and not any(each.status for each in requests):
        raise RunError(
            f"None of {len(requests)} requests to {url} was answered ({requests[0].outcome}): start `polyrhythm serve run` there, "
            "or give the --url of the server."
        )
    found = reports(requests, targets)
    if as_json:
        print_json(found)
        return
    _print(found)


def _print(found: dict[str, LoadReport]) -> None:
    from polyrhythm.core.units import show_seconds
    from polyrhythm.tools.cli.output import print_rows

    rows = []
    for each in found.values():
        outcomes = ", ".join(f"{outcome} {count}" for outcome, count in each.outcomes.items())
        came = any(each.seconds.values())
        shown = [show_seconds(each.seconds[name]) if came else "–" for name in ("p50", "p99")]
        rows.append([each.session, str(each.offered), f"{each.good_rate:.1%}", *shown, outcomes])
    print_rows(["session", "requests", "good", "median", "p99", "outcomes"], rows)
    late = max((each.late_sends for each in found.values()), default=0.0)
    typer.echo(f"\nGood is answered within the objective, from the due moment; requests were sent up to {show_seconds(late)} late (p99).")


def _chosen(rates: dict[str, float], session: list[str], models: Path) -> dict[str, float]:
    """The rates of the sessions that were chosen, or of all."""
    given = _rates(session)
    wanted = [each.partition("=")[0] for each in session] or list(rates)
    if strangers := sorted(set(wanted) - set(rates)):
        raise unknown(f"session of {models}", strangers[0], rates)
    return {name: given.get(name, rates[name]) for name in wanted}


def _rates(given: list[str]) -> dict[str, float]:
    rates = {}
    for each in given:
        name, sign, rate = each.partition("=")
        try:
            if sign:
                rates[name] = float(rate)
        except ValueError:
            raise CompositionError(f"--session {each} has no rate: write NAME=REQUESTS-PER-SECOND.") from None
    return rates
