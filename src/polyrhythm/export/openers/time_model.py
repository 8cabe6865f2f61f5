"""Times and weighs a written model: python time_model.py OPENER FILE INPUTS.npz RUNS; prints one JSON object.

A script of its own, so that what it measures is the runtime and the model, without torch and what else a process of training has.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import numpy as np

_WARM_UP = 10


def resident(what: str) -> int:
    """Bytes that this process has in memory (VmRSS), or had at most (VmHWM)."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main(opener: str, file: str, inputs: str, runs: str) -> None:
    """Open the model, compute the inputs so often, and print the seconds of each and the memory that it took."""
    open_model = runpy.run_path(opener)["open_model"]
    with np.load(inputs) as stored:
        given = {name: stored[name] for name in stored.files}
    with suppress(OSError):  # what was the most before the model was there does not count
        Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    call = open_model(file, given)
    for _ in range(_WARM_UP):
        call()
    seconds = []
    for _ in range(int(runs)):
        began = perf_counter()
        call()
        seconds.append(perf_counter() - began)
    print(json.dumps({"seconds": seconds, "memory": max(resident("VmHWM") - before, 0)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
