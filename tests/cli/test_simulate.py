"""`polyrhythm simulate` of scripts that it cannot run, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Command

RUNS = """
import polyrhythm as pr

if __name__ == "__main__":
    pr.run(print, workers=2, on=pr.Processes())
"""
JOINS = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"


@pytest.mark.parametrize("options", [["simulate", "--workers", 2], ["simulate"], ["check", "--workers", 2]])
def test_a_script_that_starts_workers_itself_is_refused_when_it_does(options: list[object], polyrhythm: Command, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(("import torch.distributed\n" if options[0] == "check" else "") + RUNS)
    done = polyrhythm(*options, script)
    assert done.code == 2
    assert done.err.startswith("polyrhythm: pr.run starts workers itself, in a script that is simulated already")
    assert "run the script with python, or give its function train(worker) to polyrhythm run or compare" in done.err


def test_options_that_were_given_to_the_script_are_shown_in_their_place(polyrhythm: Command, tmp_path: Path) -> None:
    script = tmp_path / "joins.py"
    script.write_text(JOINS)
    done = polyrhythm("simulate", script, "--lr", 1, "--workers", 4)
    assert done.code == 2
    assert done.err == (
        f"polyrhythm: {script} has started no rank, and --workers after it is its own argument: options of simulate come before SCRIPT, "
        f"as in polyrhythm simulate --workers 4 {script} --lr 1.\n"
    )
    assert "give --workers N" in polyrhythm("simulate", script, "--lr", 1).err
