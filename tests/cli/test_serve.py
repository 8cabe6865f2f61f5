"""`polyrhythm serve`: what can be said before Ray is needed."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from .conftest import Command

MODELS = """
[[models]]
name = "line"
torch = "line.py:make"
input = [3]
[[sessions]]
name = "s"
model = "line"
slo = "{slo}"
rate = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.toml").write_text(MODELS.format(slo="1 s"))
    (tmp_path / "site.toml").write_text('[[machines]]\nname = "box"\nkind = "here"\nmemory = "8 GB"\n')
    (tmp_path / "line.py").write_text("import torch\n\ndef make():\n    return torch.nn.Linear(3, 2)\n")
    (tmp_path / "trace.toml").write_text("seconds,session\n0.5,u\n")
    return tmp_path


def test_a_profile_is_printed_and_written(folder: Path, polyrhythm: Command) -> None:
    done = polyrhythm("serve", "profile", folder / "models.toml", "--kind", "here", "--batches", "1,2", "--repeats", "3")
    assert done.code == 0, done.err
    assert "The profiles of 'here' are in" in done.out
    (found,) = json.loads((folder / "profiles.json").read_text())
    assert (found["model"], found["kind"], len(found["p99"])) == ("line", "here", 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["profile", "models.toml", "--kind", "k", "--batches", "0"], "are no batch sizes"),
        (["profile", "models.toml", "--kind", "k", "--repeats", "1"], "has no percentile"),
        (
            ["profile", "models.toml", "--kind", "k", "--model", "lime"],
            "No model of {folder}/models.toml is called 'lime'. Did you mean 'line'?",
        ),
        (["profile", "modules.toml", "--kind", "k"], "there is no such file. Did you mean '{folder}/models.toml'?"),
        (["run", "models.toml", "--machines", "site.toml"], "profiles.json"),
        (["load", "models.toml", "--session", "t=4"], "is called 't'. There are: s."),
        (["load", "models.toml", "--session", "s=many"], "has no rate"),
        (["load", "models.toml", "--trace", "trace.toml"], "has requests for 'u'"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(folder: Path, polyrhythm: Command, words: list[str], said: str) -> None:
    done = polyrhythm("serve", *(folder / word if word.endswith(".toml") else word for word in words))
    assert done.code == 2
    assert said.format(folder=folder) in done.err


def test_a_load_that_nothing_answers_is_a_sentence(folder: Path, polyrhythm: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    done = polyrhythm("serve", "load", folder / "models.toml", "--seconds", "0.2", "--factor", "20", "--url", url)
    assert done.code == 1
    assert f"requests to {url} was answered" in done.err
    assert "polyrhythm serve run" in done.err


def test_a_session_that_no_machine_can_answer_in_time_is_refused_with_the_smallest_objective(folder: Path, polyrhythm: Command) -> None:
    (folder / "models.toml").write_text(MODELS.format(slo="1 us"))
    polyrhythm("serve", "profile", folder / "models.toml", "--kind", "here", "--batches", "1", "--repeats", "2")
    done = polyrhythm("serve", "run", folder / "models.toml", "--machines", folder / "site.toml")
    assert done.code == 2
    assert "The session 's' cannot be served: No machine answers line within 0.001 ms; the smallest objective is" in done.err
