"""JOBS files say what each job trains, and mistakes in them are sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyrhythm.cluster.site_file import load_jobs
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.training_jobs import load_training_jobs

WHOLE = """
[[jobs]]
name = "digits"
workers = 3
min_workers = 2
[jobs.train]
job = "digits-mlp"
system = "diloco"
set = {epochs = 2}
option = {steps = 4}
arguments = ["--fast"]
"""


def _written(directory: Path, text: str) -> Path:
    path = directory / "jobs.toml"
    path.write_text(text)
    return path


def test_the_decision_and_the_training_are_in_one_file(tmp_path: Path) -> None:
    path = _written(tmp_path, WHOLE)
    (found,) = load_training_jobs(path)
    assert (found.job,) == load_jobs(path)
    assert (found.job.least, found.job.workers) == (2, 3)
    assert found.train.words() == ["digits-mlp", "--system", "diloco", "--set", "epochs=2", "--option", "steps=4"]
    assert found.train.words("ssp") == ["digits-mlp", "--system", "ssp", "--set", "epochs=2"]
    assert found.train.after == ["--", "--fast"]


@pytest.mark.parametrize("name", ["a/b", "..", "../a", "/tmp/a", ".", "-rf", "a" * 101])
def test_a_name_that_leads_out_of_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CompositionError, match="cannot have a directory of that name"):
        load_training_jobs(_written(tmp_path, WHOLE.replace('"digits"', f'"{name}"')))


@pytest.mark.parametrize("name", ["a", "bert-3", "Größe 2", "7_b.x"])
def test_a_name_of_letters_and_digits_is_taken(tmp_path: Path, name: str) -> None:
    (found,) = load_training_jobs(_written(tmp_path, WHOLE.replace('"digits"', f'"{name}"')))
    assert found.job.name == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[jobs]]\nname = "a"', "has no training: give it jobs.train"),
        ('[[jobs]]\nname = "a"\n[jobs.train]\nsystem = "ssp"', "needs either job"),
        ('[[jobs]]\nname = "a"\n[jobs.train]\njob = "x"\nwrong = 1', "unknown field `wrong`"),
        (WHOLE.replace('system = "diloco"', "every = 5"), "leave one of them out"),
        (WHOLE + WHOLE, "have one name: 'digits'"),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CompositionError, match=said):
        load_training_jobs(_written(tmp_path, text))
