"""`polyrhythm serve profile`: the latencies of models on this machine, by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json
from polyrhythm.tools.cli.serve_options import Models, Profiles, profiles_path

if TYPE_CHECKING:
    from polyrhythm.serving.server.served_model import ServedModel

Kind = Annotated[str, typer.Option("--kind", metavar="NAME", help="The kind of this machine, as the SITE file names it.")]
Batches = Annotated[str, typer.Option("--batches", metavar="A,B,C", help="The batch sizes; others are interpolated.")]
Repeats = Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="How often each is timed.")]
Only = Annotated[list[str] | None, typer.Option("--model", metavar="NAME", help="A model of MODELS; may be repeated; default: all.")]

Entrance = Annotated[
    bool, typer.Option("--entrance", help="Also measure what Ray Serve takes for each request here, while the first model computes.")
]


@guarded
def profile(
    models: Models,
    kind: Kind,
    profiles: Profiles = None,
    model: Only = None,
    batches: Batches = "1,2,4,8,16,32",
    repeats: Repeats = 60,
    entrance: Entrance = False,
    as_json: Json = False,
) -> None:
    """Time MODELS on this machine, and the parts of their families, and write the 99th percentile by batch to the file of profiles."""
    from polyrhythm.core.units import show_bytes, show_seconds
    from polyrhythm.serving.server.family_served import measured_family
    from polyrhythm.serving.server.model_sources import family_source, source
    from polyrhythm.serving.server.profiling import measured_profile
    from polyrhythm.serving.serving_files import read_models, write_profiles
    from polyrhythm.tools.cli.output import print_json, print_rows
    from polyrhythm.tools.cli.prepare import refuse_unwritable

    sizes = _sizes(batches)
    if repeats < 2:
        raise CompositionError(f"--repeats {repeats} has no percentile: give 2 or more.")
    given = read_models(models)
    names = [each.name for each in given.models]
    if strangers := sorted(set(model or ()) - set(names)):
        raise unknown(f"model of {models}", strangers[0], names)
    chosen = [each for each in given.models if not each.emulated and (not model or each.name in model)]
    path = profiles_path(models, profiles)
    refuse_unwritable(path, "--profiles")
    found = [measured_profile(each.name, kind, source(each, models.parent), sizes, repeats) for each in chosen]
    measurable = {each.name for each in chosen}
    for family in given.families:
        if measurable.issuperset(family.variants):
            found += measured_family(family, kind, family_source(family, given, models.parent), sizes, repeats)
    write_profiles(path, found)
    taken = _entrance(source(chosen[0], models.parent)) if entrance and chosen else None
    if as_json:
        print_json(found if taken is None else {"profiles": found, "entrance": taken})
        return
    rows = [[each.model, *(show_seconds(each.latency(size)) for size in sizes), show_bytes(each.nbytes[-1])] for each in found]
    print_rows(["model", *(f"batch {size}" for size in sizes), "memory"], rows)
    typer.echo(f"\nThe profiles of {kind!r} are in {path}.")
    if taken is not None:
        typer.echo(f'The entrance takes {show_seconds(taken)} for a request: write entrance = "{taken * 1e3:.3g} ms" in [rules] of SITE.')


def _entrance(model: ServedModel) -> float:
    from polyrhythm.serving.server.entrance_profile import measured_entrance
    from polyrhythm.serving.server.ray_site import RayServe

    return measured_entrance(RayServe(), [model], model.form)


def _sizes(given: str) -> list[int]:
    try:
        sizes = sorted({int(part) for part in given.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise CompositionError(f"--batches {given} are no batch sizes: give whole numbers from 1, such as 1,2,4,8.")
    return sizes
