"""`polyrhythm check`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_what_is_missing_is_printed_and_the_command_fails(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("check", tiny, "--workers", 4)
    assert result.code == 1
    assert result.out.splitlines()[-1].startswith("4 workers average their gradients, and the learning rate is that of one")
    result = polyrhythm("check", tiny, "--system", "large-minibatch", "--workers", 4, "--set", "epochs=1")
    assert result.code == 0
    assert result.out.splitlines()[-1].endswith("follows the recipe for 4 workers with large-minibatch.")


def test_as_json_it_is_one_object(polyrhythm: Any, tiny: Path) -> None:
    result = json.loads(polyrhythm("check", tiny, "--json").out)
    assert (result["system"], result["workers"], len(result["findings"])) == ("allreduce", 2, 1)


def test_a_script_of_torch_distributed_is_run_beside_one_process(polyrhythm: Any) -> None:
    scripts = Path(__file__).parents[1] / "torch_programs"
    result = polyrhythm("check", scripts / "planted" / "stale_buffer.py", "--collectives")
    assert result.code == 1
    assert "all_reduce SUM over 2 ranks" in result.out
    assert "stale-gradients: the gradient of 0.weight on rank 0 is that of the last of 2 micro-batches alone" in result.out
    assert "Fast-LLM #550" in result.out
    result = polyrhythm("check", scripts / "correct" / "by_hand.py", "--json")
    assert (result.code, json.loads(result.out)["findings"]) == (0, [])


def test_options_of_jobs_and_of_scripts_are_not_mixed(polyrhythm: Any, tiny: Path) -> None:
    script = Path(__file__).parents[1] / "torch_programs" / "correct" / "by_hand.py"
    assert "leave them out" in polyrhythm("check", script, "--system", "ssp").err
    assert "for those alone" in polyrhythm("check", tiny, "--collectives").err
    assert "names no function" in polyrhythm("check", script, "--twin", f"{script}:absent").err
