"""Every example of the README and of the pages in docs/ is run, in order, in an empty directory."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ports import reserved_port

from polyrhythm.core.catalogue import CHOICES

ROOT = Path(__file__).resolve().parents[2]
GUIDE, HOW_TOS = (sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"docs/{folder}/*.md")) for folder in ("guide", "how-to"))
PAGES = (
    "README.md",
    "docs/own-writes.md",
    "docs/tables.md",
    "docs/learners-networks.md",
    "docs/learners-actors.md",
    "docs/whole-batches.md",
    "docs/memory.md",
    "docs/functional-style.md",
    "docs/graph-front-ends.md",
    "docs/networks.md",
    "docs/commands.md",
    "docs/studies.md",
    "docs/joining.md",
    "docs/launchers.md",
    *GUIDE,
    *HOW_TOS,
)
FENCE = re.compile(r"^```(?P<kind>\w+)(?: file=(?P<file>\S+))?(?P<alone> alone)?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, the file it is written to, whether that is run by itself, its text, and the line it begins at."""

    kind: str
    file: str | None
    alone: bool
    body: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(found["kind"], found["file"], found["alone"] is not None, found["body"], text.count("\n", 0, found.start("body")))


def run_python(block: Block, page: str, names: dict[str, Any]) -> None:
    exec(compile("\n" * block.line + block.body, page, "exec", dont_inherit=True), names)


def run_process(*words: str) -> None:
    with reserved_port() as port:
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
        )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"


def run_console(block: Block) -> None:
    """Only what begins with `$ polyrhythm`: the rest of a console block is other programs and what they print."""
    for line in block.body.replace("\\\n", " ").splitlines():
        if line.startswith("$ polyrhythm "):
            run_process("-m", "polyrhythm", *shlex.split(line)[2:])


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty one, to work in and to import from; what was imported from it is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    before = set(sys.modules)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)


LONG = ("README.md", "docs/commands.md", "docs/launchers.md", "docs/guide/cluster-run.md")
"""Pages whose commands start many processes."""


@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.long) if page in LONG else page for page in PAGES])
def test_the_examples_of_a_page_run_from_top_to_bottom(page: str, directory: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    seen = 0
    for block in blocks(page):
        if block.file is not None:
            (directory / block.file).write_text(block.body, encoding="utf-8")
        if block.alone and block.file is not None:
            run_process(block.file)
        elif block.kind == "python":
            run_python(block, page, names)
        elif block.kind == "console":
            run_console(block)
        seen += block.kind == "python"
    assert seen, f"{page} has no example in Python"


@pytest.mark.parametrize(
    "page", sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    reference = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    made = {ROOT / "docs" / place for place in (*dict(reference["pages"]()), *reference["COPIES"])}
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text):
        assert (path := ((ROOT / page).parent / target).resolve()).exists() or path in made, f"{page} links to {target}"


def test_the_guide_names_all_axes_that_must_fit() -> None:
    guide = " ".join((ROOT / "docs/guide/strategies.md").read_text(encoding="utf-8").split())
    [axes] = re.findall(r"pieces have in common: (.*?)\.", guide)
    assert {axis.split()[0] for axis in re.split(", | and ", axes)} == set(CHOICES)


def test_the_page_about_layers_agrees_with_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    shown = [block.body.splitlines() for block in blocks("docs/decisions/layers.md") if block.kind == "text"]
    assert shown == layers[:2]
