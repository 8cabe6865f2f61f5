"""`polyrhythm workloads`: the training functions that come with the package."""

from __future__ import annotations

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json


@guarded
def workloads(as_json: Json = False) -> None:
    """List the bundled workloads and their settings."""
    from dataclasses import asdict

    from polyrhythm.tools.cli.output import console, print_json
    from polyrhythm.workloads import WORKLOADS

    rows = [
        {
            "name": name,
            "description": kind.description,
            "metric": kind.metric.name,
            "higher_is_better": kind.metric.higher_is_better,
            "settings": asdict(kind()),  # type: ignore[call-overload]
        }
        for name, kind in WORKLOADS.items()
    ]
    if as_json:
        print_json(rows)
        return
    out = console()
    for row in rows:
        out.print(row["name"], style="bold")
        out.print(f"  {row['description']}")
        out.print(f"  counts: {row['metric']}, {'higher' if row['higher_is_better'] else 'lower'} is better")
        out.print("  " + " ".join(f"--set {key}={value}" for key, value in row["settings"].items()))
