"""`polyrhythm serve plan`: which machine serves which sessions, in which batches, and what breaks first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json, path_given
from polyrhythm.tools.cli.serve_options import Machines, Models, Profiles, profiles_path

if TYPE_CHECKING:
    from polyrhythm.serving import PlanDiff, PlanExport, ServingPlan

Previous = Annotated[
    Path | None,
    typer.Option("--previous", metavar="PLAN", parser=path_given, help="A plan in use: what fits there stays, and changes are listed."),
]
Written = Annotated[Path | None, typer.Option("--out", metavar="FILE", parser=path_given, help="Write the plan to this JSON file.")]
Export = Annotated[
    str | None, typer.Option("--export", metavar="triton|bentoml", help="Write the plan as that server's configuration; needs --to.")
]
To = Annotated[Path | None, typer.Option("--to", metavar="DIR", parser=path_given, help="The directory of the exported configuration.")]


@guarded
def plan(
    models: Models,
    machines: Machines,
    profiles: Profiles = None,
    previous: Previous = None,
    out: Written = None,
    export: Export = None,
    to: To = None,
    as_json: Json = False,
) -> None:
    """Plan MODELS on the machines of SITE: batches, duty cycles, memory, headroom, and what breaks first."""
    from polyrhythm.serving import plan as make_plan
    from polyrhythm.serving import plan_families
    from polyrhythm.serving.serving_files import read_models, read_plan, read_profiles, read_site, write_plan
    from polyrhythm.tools.cli.output import print_json

    exporter = _exporter(export, to)
    given, where = read_models(models), read_site(machines)
    before = None if previous is None else read_plan(previous)
    measured, rules = read_profiles(profiles_path(models, profiles)), where.planning()
    sessions, families = given.divided(measured, rules), given.prefix_families(measured)
    chosen = plan_families(sessions, where.served(), measured, families, rules)
    made, work = make_plan(chosen.sessions, where.served(), chosen.profiles, before, rules)
    if out is not None:
        write_plan(out, made)
    if exporter is not None and to is not None:
        for name, text in exporter.files(made).items():
            file = to / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"plan": made, "changes": work, "families": chosen.weighed})
    else:
        _show(made, work if before is not None else None, [each.sentence for each in chosen.weighed])
    if made.unserved:
        raise typer.Exit(1)


def _exporter(name: str | None, to: Path | None) -> PlanExport | None:
    from polyrhythm.serving import BentoExport, TritonExport

    known: Mapping[str, PlanExport] = {"triton": TritonExport(), "bentoml": BentoExport()}
    if name is None:
        return None
    if name not in known:
        raise unknown("server to export to", name, list(known))
    if to is None:
        raise CompositionError(f"--export {name} needs a directory: give --to DIR.")
    return known[name]


def _show(made: ServingPlan, work: PlanDiff | None, families: Sequence[str]) -> None:
    from polyrhythm.tools.cli.output import console, print_rows
    from polyrhythm.tools.report.serving import PLAN_COLUMNS, plan_rows, plan_sentences

    print_rows(PLAN_COLUMNS, plan_rows(made))
    out = console()
    out.print()
    for sentence in (*plan_sentences(made), *families):
        out.print(sentence)
    if work is not None:
        changes = [*(f"load {model} on {machine}" for machine, model in work.loads)]
        changes += [f"unload {model} from {machine}" for machine, model in work.unloads]
        changes += [f"change the batch or the rate of {session} on {machine}" for machine, session in work.changed]
        out.print("To do: " + ("; ".join(changes) if changes else "nothing") + ".")
