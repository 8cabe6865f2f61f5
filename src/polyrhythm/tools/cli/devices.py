"""`polyrhythm devices`: the devices that the simulator knows by name."""

from __future__ import annotations

import re
from math import isinf
from typing import Any

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json


@guarded
def devices(as_json: Json = False) -> None:
    """List the simulator's devices and where their figures come from."""
    from rich.padding import Padding

    from polyrhythm.core.units import show_bytes, show_seconds
    from polyrhythm.hardware.device_presets import DEVICES, TERMS
    from polyrhythm.tools.cli.output import console, print_json

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "flops": device.flops,
            "overhead_seconds": device.overhead_seconds,
            "memory_bytes": None if isinf(TERMS[name].memory) else TERMS[name].memory,
            "watts": TERMS[name].watts,
            "source": _source(name),
        }
        for name, device in DEVICES.items()
    ]
    if as_json:
        print_json(rows)
        return
    out = console()
    for row in rows:
        rate = f"{row['flops'] / 1e9:,.4g} GFLOPS" if row["flops"] < 1e12 else f"{row['flops'] / 1e12:,.4g} TFLOPS"
        out.print(f"{row['name']}: {rate} sustained, and {show_seconds(row['overhead_seconds'])} for every step", style="bold")
        memory = "" if row["memory_bytes"] is None else f"{show_bytes(row['memory_bytes'])} of memory, "
        out.print(Padding(f"{memory}{row['watts']:g} W", (0, 0, 0, 2)))
        out.print(Padding(row["source"], (0, 0, 0, 2)))


def _source(name: str) -> str:
    """The row of `name` in the table in the docstring of the devices: peak and source, and the part of it that is sustained."""
    from polyrhythm.hardware import device_presets as presets

    found = re.search(rf"^ +{re.escape(name)} {{2,}}(.+?) {{2,}}(?:([\d.]+) {{2,}})?", presets.__doc__ or "", re.MULTILINE)
    if found is None:
        return ""
    return f"{found[1]}; {float(found[2]):.0%} of that" if found[2] else found[1]
