"""The circumstances that may differ between a resumed run and the one that wrote the checkpoint, and sentences that report it."""

from __future__ import annotations

import hashlib
import inspect
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from polyrhythm.core.job_files.settings import Configured
from polyrhythm.core.strategy.strategy import Strategy

SCRIPT, RUNTIME, LAYOUT = "file of the training function", "runtime", "the layout"
ENDS_ALIKE = "A resumed run ends with the bits of one that was not broken off."
ENDS_OTHERWISE = (
    "results depend on the order in which messages arrive, so a resumed run loses no contribution and counts none twice, but does not end "
    "with the bits of one that was not broken off, also in virtual time."
)


def promise(strategy: Strategy) -> str:
    """A sentence on how a resumed run ends: with the bits of an uninterrupted one, or not."""
    return f"Under {strategy.name} {ENDS_OTHERWISE}" if strategy.order_matters else ENDS_ALIKE


def circumstances(train: Any, runtime: str) -> dict[str, str]:
    """The circumstances of a run of `train` here: versions, the runtime, and the file of the training function with its hash."""
    found = {"torch": str(torch.__version__), "Python": platform.python_version(), RUNTIME: runtime}
    while isinstance(train, (partial, Configured)):
        train = train.func if isinstance(train, partial) else train.train
    with suppress(TypeError, OSError):
        path = inspect.getsourcefile(train if inspect.isroutine(train) or inspect.ismodule(train) else type(train))
        if path is not None:
            found[SCRIPT] = f"{Path(path).name}, {hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]}"
    return found


def moved(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Sentences about another runtime or network in which the run continues, and other parts of its model; none for the same."""
    before, now = there.get(RUNTIME, ""), here.get(RUNTIME, "")
    parts = [f"The model is in the parts of {here[LAYOUT]} now."] if there.get(LAYOUT, "") != here.get(LAYOUT, "") else []
    elsewhere = [f"The checkpoint was written by {before}, and the run goes on in {now}."] if before and now and before != now else []
    return [*parts, *elsewhere]


def changes(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """A sentence for each other circumstance that differs."""
    found = []
    for name in there:
        if name in (RUNTIME, LAYOUT) or name not in here or there[name] == here[name]:
            continue
        if name == SCRIPT:
            before, now = (each[name].partition(",")[0] for each in (there, here))
            what = f"{now} has changed" if before == now else f"The training function is in {now} now, and was in {before}"
            found.append(f"{what} since the checkpoint was written: the run goes on as it is now.")
        else:
            found.append(f"The checkpoint was written with {name} {there[name]}, and the run goes on with {here[name]}.")
    return found
