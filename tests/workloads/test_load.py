"""JOBs: what is loaded, and what is refused in which words."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cloudpickle
import pytest

from polyrhythm.errors import UnknownNameError, WorkloadError
from polyrhythm.workloads import CharsGpt, DigitsCnn, load


def job(folder: Path, text: str, name: str = "job.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refused(path: str, *words: str, settings: dict[str, str] | None = None) -> None:
    with pytest.raises(WorkloadError) as caught:
        load(path, settings or {})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_gives_the_bundled_workload_with_its_settings_changed() -> None:
    assert load("digits-cnn", {}) == DigitsCnn()
    assert load("digits-cnn", {"epochs": "5", "learning_rate": "1e-2"}) == DigitsCnn(epochs=5, learning_rate=0.01)
    assert load("chars-gpt", {"samples": "320"}) == CharsGpt(samples=320)


def test_an_unknown_name_is_answered_with_the_nearest_and_how_to_give_a_file() -> None:
    refused("digit-cnn", "'digits-cnn'", "by its path")


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'epochs'"):
        load("digits-cnn", {"epoch": "5"})
    with pytest.raises(UnknownNameError, match="There are"):  # name is no setting, though the class has it
        load("digits-cnn", {"name": "mine"})


@pytest.mark.parametrize(("name", "text"), [("epochs", "five"), ("epochs", "5.5"), ("learning_rate", "fast"), ("epochs", "")])
def test_a_setting_of_the_wrong_type_is_refused_with_the_right_one(name: str, text: str) -> None:
    refused("digits-cnn", f"{name}={text}", "number", settings={name: text})


@pytest.mark.parametrize(
    ("name", "text"), [("epochs", "0"), ("batch_size", "-1"), ("learning_rate", "nan"), ("learning_rate", "inf"), ("momentum", "1")]
)
def test_a_setting_with_which_nothing_trains_is_refused(name: str, text: str) -> None:
    refused("digits-cnn", name, "must be", settings={name: text})


def test_a_file_gives_its_train(tmp_path: Path) -> None:
    train = load(job(tmp_path, "def train(worker):\n    return worker.rank + 40\n"), {})

    class Two:
        rank = 2

    assert train(Two()) == 42  # type: ignore[arg-type]


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "model_beside_the_job.py").write_text("answer = 42\n")
    train = load(job(tmp_path, "from model_beside_the_job import answer\ndef train(worker):\n    return answer\n"), {})
    assert train(None) == 42  # type: ignore[arg-type]


def test_a_file_is_not_run_as_the_main_program(tmp_path: Path) -> None:
    load(job(tmp_path, "def train(worker):\n    pass\nif __name__ == '__main__':\n    raise SystemExit(1)\n"), {})


def test_a_file_leaves_no_compiled_copy(tmp_path: Path) -> None:
    load(job(tmp_path, "def train(worker):\n    pass\n"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["job.py"]


def test_two_files_of_one_name_are_two_jobs_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = load(job(tmp_path, "def train(worker):\n    return 1\n"), {})
    second = load(job(tmp_path / "other", "def train(worker):\n    return 2\n"), {})
    third = load(job(tmp_path, "def train(worker):\n    return 3\n"), {})
    assert [train(None) for train in (first, second, third)] == [1, 2, 3]  # type: ignore[arg-type]


DATACLASS_JOB = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    steps: int = 3
    label: str = "a"
    fast: bool = False
    table: tuple[int, ...] = ()
    def __call__(self, worker):
        return (self.steps, self.label, self.fast)

train = Mine()
"""


def test_a_dataclass_object_in_a_file_takes_settings(tmp_path: Path) -> None:
    path = job(tmp_path, DATACLASS_JOB)
    assert load(path, {"steps": "7", "label": "x=y", "fast": "Yes"})(None) == (7, "x=y", True)  # type: ignore[arg-type]
    refused(path, "fast must be true or false", settings={"fast": "maybe"})
    refused(path, "cannot be given as text", settings={"table": "1"})


def test_what_a_file_defines_can_travel_to_another_process(tmp_path: Path) -> None:
    train = load(job(tmp_path, DATACLASS_JOB), {"steps": "9"})
    packed = cloudpickle.dumps(train)
    for name in [name for name in sys.modules if name.startswith("polyrhythm_job_")]:
        del sys.modules[name]  # as in a process that never loaded the file
    assert cloudpickle.loads(packed)(None) == (9, "a", False)


def test_a_plain_function_takes_no_settings(tmp_path: Path) -> None:
    refused(job(tmp_path, "def train(worker):\n    pass\n"), "takes no settings", "epochs", settings={"epochs": "1"})


def test_a_missing_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    job(tmp_path, "", "train_net.py")
    refused(str(tmp_path / "train_nett.py"), "There is no file", "train_net.py")
    refused(str(tmp_path / "nowhere" / "job.py"), "There is no file", "digits-cnn")


def test_folders_and_files_that_are_not_python_are_refused(tmp_path: Path) -> None:
    refused(str(tmp_path), "is a folder")
    refused(job(tmp_path, "{}", "job.ipynb"), "not a Python file")


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    path = job(tmp_path, "x = 1\ndef train(worker)\n    pass\n")
    refused(path, f"{path}, line 2", "SyntaxError", "def train(worker)")
    refused(job(tmp_path, "x = 1\n    y = 2\n"), "line 2", "IndentationError")


def test_a_syntax_error_in_an_imported_file_names_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "broken_beside_the_job.py").write_text("\n\nx = = 1\n")
    refused(job(tmp_path, "import broken_beside_the_job\n"), "broken_beside_the_job.py, line 3")


def test_an_exception_while_importing_is_told_in_its_own_words_with_its_line(tmp_path: Path) -> None:
    path = job(tmp_path, "import math\n\nmath.sqrt(-1)\n")
    refused(path, f"{path}, line 3", "ValueError: ", "math.sqrt(-1)")
    refused(job(tmp_path, "import no_such_module_anywhere\n"), "line 1", "No module named 'no_such_module_anywhere'")
    refused(job(tmp_path, "raise SystemExit('no data')\n"), "line 1", "no data")
    refused(job(tmp_path, "raise ValueError('two\\nlines')\n"), "line 1", "two lines")
    assert not [name for name in sys.modules if name == "polyrhythm_job_job" and not hasattr(sys.modules[name], "train")]


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_bytes(b"x = '\xff\xfe'\n")
    refused(str(tmp_path / "job.py"), "job.py")
    (tmp_path / "job.py").write_bytes(b"\0\0")
    refused(str(tmp_path / "job.py"), "job.py")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "defines no train"),
        ("def training(worker):\n    pass\n", "'training'"),
        ("train = 3\n", "int"),
        ("class train:\n    def __call__(self, worker): pass\n", "is a class"),
        ("def train():\n    pass\n", "one argument"),
        ("def train(worker, epochs):\n    pass\n", "one argument"),
        ("async def train(worker):\n    pass\n", "async"),
        ("def train(worker):\n    yield 1\n", "generator"),
    ],
)
def test_a_train_that_cannot_be_called_with_a_worker_is_refused(tmp_path: Path, text: str, words: str) -> None:
    refused(job(tmp_path, text), words)


def test_no_message_shows_a_traceback_of_ours(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        load(job(tmp_path, "1 / 0\n"), {})
    assert not re.search(r"Traceback|load\.py", str(caught.value))
