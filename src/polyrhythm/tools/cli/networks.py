"""`polyrhythm networks`: the networks that the simulator knows by name."""

from __future__ import annotations

import re
from typing import Any

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json

_BITS = 8


@guarded
def networks(as_json: Json = False) -> None:
    """List the simulator's networks and where their figures come from."""
    from rich.padding import Padding

    from polyrhythm.core.units import show_seconds
    from polyrhythm.hardware import network
    from polyrhythm.hardware.presets import PRESETS
    from polyrhythm.tools.cli.output import console, print_json

    rows: list[dict[str, Any]] = []
    for name in PRESETS:
        loaded = network.load(name)
        latency, rate = loaded.slowest()
        row: dict[str, Any] = {"name": name, "sites": [site.name for site in loaded.sites], "source": _source(name)}
        rows.append(row | {"longest_latency_seconds": latency, "least_bytes_per_second": rate})
    if as_json:
        print_json(rows)
        return
    out = console()
    for row in rows:
        sites = "1 site" if len(row["sites"]) == 1 else f"{len(row['sites'])} sites"
        worst = f"{row['least_bytes_per_second'] * _BITS / 1e6:,.5g} Mbit/s and {show_seconds(row['longest_latency_seconds'])} one way"
        out.print(f"{row['name']}: {sites}; at worst {worst}", style="bold")
        out.print(Padding(row["source"], (0, 0, 0, 2)))


def _source(name: str) -> str:
    """The description of `name` in the docstring of the presets: the paragraph that begins with it, its continuation indented."""
    from polyrhythm.hardware import presets

    found = re.search(rf"^{re.escape(name)} +(.+(?:\n +.+)*)", presets.__doc__ or "", re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
