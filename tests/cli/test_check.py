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
