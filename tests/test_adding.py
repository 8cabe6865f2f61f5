"""A codec is one file and one line, a system one function and one line: shown on a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODEC = '''
from dataclasses import dataclass

from polyrhythm.codec.identity import Identity


@dataclass(frozen=True, slots=True)
class Renamed(Identity):
    """The vector as it is."""
'''
SYSTEM = '''

from polyrhythm.codec import Renamed


@system(Family.ALL_REDUCE, "as `allreduce`", parts="servers")
def made_here(servers: int = 1) -> Strategy:
    """All-reduce with another codec (Nobody, 2026)."""
    return Strategy(name="made-here", codec=Renamed())
'''
USE = """
import runpy
import sys

import torch

import polyrhythm as pr
from polyrhythm.core.catalogue import CHOICES
from polyrhythm.tools.cli.complete import option_names

made = pr.systems.find("made-here", parts=2)
assert made == pr.systems.made_here(2) and made.codec == pr.codec.Renamed()
assert pr.codec.Renamed() in pr.codec.MEMBERS and pr.codec.Renamed() in CHOICES["codec"]
assert {"Renamed"} <= set(pr.codec.__all__) and {"made_here"} <= set(pr.systems.__all__)
assert option_names("made-here") == {"servers": ("parts",)}
try:
    pr.Renamed
except AttributeError as error:
    assert "did you mean pr.codec.Renamed?" in str(error)
else:
    raise AssertionError("pieces stand under their packages")

def train(worker):
    model, optimizer = worker.attach(model := torch.nn.Linear(2, 1), torch.optim.SGD(model.parameters(), lr=0.1))
    for (x,) in worker.batches((torch.randn(32, 2),), batch_size=4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

run, plain = (pr.run(train, workers=2, strategy=each, on=pr.Simulator()) for each in ("made-here", "allreduce"))
assert run.summary.weights_sha256 == plain.summary.weights_sha256

sys.path.insert(0, "docs")
runpy.run_path("docs/generate_tables.py", run_name="__main__")
"""


def append(file: Path, text: str, after: str = "") -> None:
    """Write `text` behind the first `after`, or at the end."""
    whole = file.read_text(encoding="utf-8")
    place = whole.index(after) + len(after) if after else len(whole)
    file.write_text(whole[:place] + text + whole[place:], encoding="utf-8")


def test_a_codec_is_one_file_and_one_line_and_a_system_one_function_and_one_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "polyrhythm", tmp_path / "src" / "polyrhythm")
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    generators = [f"docs/{path.name}" for path in (ROOT / "docs").glob("generate_*.py")]
    for name in ("README.md", "docs/systems.md", "docs/taxonomy.md", "docs/guide/strategies.md", *generators):
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "src" / "polyrhythm"
    before = (tmp_path / "README.md").read_text(encoding="utf-8")

    (package / "codec" / "renamed.py").write_text(CODEC, encoding="utf-8")
    line = "from polyrhythm.codec.identity import Identity as Identity\n"
    append(package / "codec" / "__init__.py", "from polyrhythm.codec.renamed import Renamed as Renamed\n", line)
    append(package / "systems" / "synchronous.py", SYSTEM)
    line = "from polyrhythm.systems.synchronous import allreduce as allreduce\n"
    append(package / "systems" / "__init__.py", "from polyrhythm.systems.synchronous import made_here as made_here\n", line)

    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "`allreduce`, `made-here`, `direct`" in readme
    number = int(before.partition(" published systems and a baseline")[0].rpartition("\n")[2])
    assert f"\n{number + 1} published systems and a baseline" in readme
    assert "## made-here\n" in (tmp_path / "docs" / "systems.md").read_text(encoding="utf-8")
    assert "`Identity`, `Renamed`, `Cast`" in (tmp_path / "docs" / "guide" / "strategies.md").read_text(encoding="utf-8")
