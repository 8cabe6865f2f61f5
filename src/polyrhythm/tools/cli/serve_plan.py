"""`polyrhythm serve plan`: which machine serves which sessions, in which batches, and what breaks first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.groups import grouped
from polyrhythm.tools.cli.options import Json, path_given
from polyrhythm.tools.cli.serve_export import TypedExport
from polyrhythm.tools.cli.serve_options import Machines, Models, Profiles, profiles_path

if TYPE_CHECKING:
    from polyrhythm.serving import PlanDiff, ServingPlan

Previous = Annotated[
    Path | None,
    typer.Option("--previous", metavar="PLAN", parser=path_given, help="A plan in use: what fits there stays, and changes are listed."),
]
Written = Annotated[Path | None, typer.Option("--out", metavar="FILE", parser=path_given, help="Write the plan to this JSON file.")]


@guarded
@grouped
def plan(
    models: Models,
    machines: Machines,
    profiles: Profiles = None,
    previous: Previous = None,
    out: Written = None,
    *,
    exported: TypedExport,
    as_json: Json = False,
) -> None:
    """Plan MODELS on the machines of SITE: batches, duty cycles, memory, headroom, and what breaks first."""
    from polyrhythm.serving import plan as make_plan
    from polyrhythm.serving import plan_families
    from polyrhythm.serving.serving_files import read_models, read_plan, read_profiles, read_site, write_plan
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.cli.prepare import refuse_unwritable

    given, where = read_models(models), read_site(machines)
    before = None if previous is None else read_plan(previous)
    measured, rules = read_profiles(profiles_path(models, profiles)), where.planning()
    refuse_unwritable(out, "--out")
    wanted = exported.opened()
    sessions, families = given.divided(measured, rules), given.prefix_families(measured)
    chosen = plan_families(sessions, where.served(), measured, families, rules)
    made, work = make_plan(chosen.sessions, where.served(), chosen.profiles, before, rules)
    if as_json:
        print_json({"plan": made, "changes": work, "families": chosen.weighed})
    else:
        _show(made, work if before is not None else None, [each.sentence for each in chosen.weighed])
    if out is not None:
        write_plan(out, made)
        notice(f"the plan is in {out}; --previous {quote(str(out))} makes the next one begin with it")
    if wanted is not None:
        wanted.write(made, given.models)
    if made.unserved:
        raise typer.Exit(1)


def _show(made: ServingPlan, work: PlanDiff | None, families: Sequence[str]) -> None:
    from polyrhythm.tools.cli.output import console, print_rows
    from polyrhythm.tools.report.serving import PLAN_COLUMNS, plan_rows, unserved_sentences, weakest_sentences

    out, rows = console(), plan_rows(made)
    for sentence in (lacking := unserved_sentences(made)):
        out.print(sentence)
    if lacking and rows:
        out.print()
    print_rows(PLAN_COLUMNS, rows)
    below = [*weakest_sentences(made), *families]
    if below:
        out.print()
    for sentence in below:
        out.print(sentence)
    if work is not None:
        changes = [*(f"load {model} on {machine}" for machine, model in work.loads)]
        changes += [f"unload {model} from {machine}" for machine, model in work.unloads]
        changes += [f"change the batch or the rate of {session} on {machine}" for machine, session in work.changed]
        out.print("To do: " + ("; ".join(changes) if changes else "nothing") + ".")
