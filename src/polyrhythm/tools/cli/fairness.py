"""Options of a fair comparison: several seeds, one global batch, and settings for single systems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from polyrhythm.core.job_files.settings import Train, settings_of
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError, unknown

_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_SEEDS = 1000
BATCH = "batch_size"
"""The setting that --global-batch decides."""


def parse_seeds(text: str) -> list[int]:
    """The seeds that "0..4" or "0,1,5" names, in that order, each once. Raises CompositionError for anything else."""
    seeds: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is not None and 0 <= int(found[2]) - int(found[1]) < _MOST_SEEDS:
            seeds += range(int(found[1]), int(found[2]) + 1)
        elif part.strip().isdecimal():
            seeds.append(int(part))
        else:
            raise CompositionError(f"--seeds was given {text!r}: write a range such as 0..4, or seeds with commas between, such as 0,1,5.")
    return list(dict.fromkeys(seeds))


def deal_settings(given: Mapping[str, str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings under which each of several systems trains: KEY for all, and NAME.KEY for that one only, which counts more."""
    shared = {key: text for key, text in given.items() if "." not in key}
    dealt = {name: dict(shared) for name in names}
    for key, text in given.items():
        owner, dot, own = key.rpartition(".")
        if dot and owner not in dealt:
            raise unknown("system of this comparison", owner, names)
        if dot:
            dealt[owner][own] = text
    return dealt


def share_batch(total: int, train: Train, strategies: Mapping[str, Strategy | None], workers: int) -> dict[str, dict[str, str]]:
    """For each system the batch size of each worker, so that all workers that it uses take `total` samples a step together.

    Raises CompositionError where that is no whole number, or where the training function has no such setting.
    """
    if BATCH not in settings_of(train):
        raise CompositionError(
            f"--global-batch {total} sets {BATCH}, and this JOB has no such setting: give train a keyword parameter {BATCH}, as in "
            f"def train(worker, {BATCH}=32)."
        )
    shares = {}
    for name, strategy in strategies.items():
        used = workers if strategy is None else strategy.workers(workers)
        if total < 1 or total % used:
            raise CompositionError(
                f"--global-batch {total} cannot be divided among the {used} workers of {name}: give a multiple of {used}."
            )
        shares[name] = {BATCH: str(total // used)}
    return shares
