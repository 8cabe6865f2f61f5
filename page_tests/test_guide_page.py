"""The commands of the guide's page about phones, all of them, as a new user types them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Browser
from program import command

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "digits-on-a-phone.md"
BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_guide_make_pages_that_open(
    tab: Browser, served: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = 0
    for line in "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8"))).splitlines():
        program, *words = shlex.split(line.removeprefix("$ "))
        if program == "polyrhythm":
            shorter = ["--set", "samples=256"] if "chars-gpt" in words else []
            command(*words, *shorter)
        else:
            assert [program, *words[:3]] == ["python", "-m", "http.server", "--directory"], line
            tab.open(served(tmp_path / words[3]), 420, 860)
            opened += 1
    assert opened == 2
    assert tab.told == []
