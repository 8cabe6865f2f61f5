"""Prints what comes of each case of a user's under each system: `PYTHONPATH=strategy python -m training.case_matrix`, in `tests/`.

It may be given `simulator` or `processes`, and names of systems with commas between them.
Cases are those of `unstepped`, `one_worker` and `user_writes`.
"""

from __future__ import annotations

import sys
import warnings

import torch

from . import one_worker, unstepped, user_writes
from .scenes import EVERY_SYSTEM
from .user_cases import shown


def main(runtime: str = "simulator", names: str = "") -> None:
    """Print a line for each case."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    systems = tuple(names.split(",")) if names else EVERY_SYSTEM
    for case, each in {**unstepped.CASES, **one_worker.CASES}.items():
        found = {system: each.outcome(system, user_writes.RUNTIMES[runtime]()) for system in systems}
        print(shown({case: found}), flush=True)
    for case in user_writes.CASES:
        found = {system: user_writes.verdict(case, system, user_writes.RUNTIMES[runtime]()) for system in systems}
        print(
            shown({case: {system: text if text.startswith("wrong") else text.split(":")[0] for system, text in found.items()}}), flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
