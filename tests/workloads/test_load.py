"""JOBs: what is loaded, and what is refused in which words."""

from __future__ import annotations

import argparse
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest

from polyrhythm.core.job_files.script import arguments
from polyrhythm.errors import ScriptEnded, UnknownNameError, WorkloadError
from polyrhythm.workloads import CharsGpt, DigitsCnn, load_workload


def job(folder: Path, text: str, name: str = "job.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refused(path: str, *words: str, settings: dict[str, str] | None = None) -> None:
    with pytest.raises(WorkloadError) as caught:
        load_workload(path, settings or {})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_gives_the_bundled_workload_with_its_settings_changed() -> None:
    assert load_workload("digits-cnn", {}) == DigitsCnn()
    assert load_workload("digits-cnn", {"epochs": "5", "learning_rate": "1e-2"}) == DigitsCnn(epochs=5, learning_rate=0.01)
    assert load_workload("chars-gpt", {"samples": "320"}) == CharsGpt(samples=320)


def test_an_unknown_name_is_refused_with_the_nearest_and_how_to_give_a_file() -> None:
    refused("digit-cnn", "'digits-cnn'", "by its path")


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'epochs'"):
        load_workload("digits-cnn", {"epoch": "5"})
    with pytest.raises(UnknownNameError, match="There are"):  # name is no setting, though the class has it
        load_workload("digits-cnn", {"name": "mine"})


@pytest.mark.parametrize(("name", "text"), [("epochs", "five"), ("epochs", "5.5"), ("learning_rate", "fast"), ("epochs", "")])
def test_a_setting_of_the_wrong_type_is_refused_with_the_right_one(name: str, text: str) -> None:
    refused("digits-cnn", f"{name}={text}", "number", settings={name: text})


@pytest.mark.parametrize(
    ("name", "text"), [("epochs", "0"), ("batch_size", "-1"), ("learning_rate", "nan"), ("learning_rate", "inf"), ("momentum", "1")]
)
def test_a_setting_with_which_nothing_trains_is_refused(name: str, text: str) -> None:
    refused("digits-cnn", name, "must be", settings={name: text})


def test_a_file_gives_its_train(tmp_path: Path) -> None:
    train = load_workload(job(tmp_path, "def train(worker):\n    return worker.rank + 40\n"), {})

    class Two:
        rank = 2

    assert train(Two()) == 42  # type: ignore[arg-type]


def test_a_file_may_import_what_lies_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "model_beside_the_job.py").write_text("answer = 42\n")
    train = load_workload(job(tmp_path, "from model_beside_the_job import answer\ndef train(worker):\n    return answer\n"), {})
    assert train(None) == 42  # type: ignore[arg-type]


def test_a_file_is_not_run_as_the_main_program(tmp_path: Path) -> None:
    load_workload(job(tmp_path, "def train(worker):\n    pass\nif __name__ == '__main__':\n    raise SystemExit(1)\n"), {})


def test_a_file_leaves_no_compiled_copy(tmp_path: Path) -> None:
    load_workload(job(tmp_path, "def train(worker):\n    pass\n"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["job.py"]


def test_two_files_of_one_name_are_two_jobs_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = load_workload(job(tmp_path, "def train(worker):\n    return 1\n"), {})
    second = load_workload(job(tmp_path / "other", "def train(worker):\n    return 2\n"), {})
    third = load_workload(job(tmp_path, "def train(worker):\n    return 3\n"), {})
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
    assert load_workload(path, {"steps": "7", "label": "x=y", "fast": "Yes"})(None) == (7, "x=y", True)  # type: ignore[arg-type]
    refused(path, "fast must be true or false", settings={"fast": "maybe"})
    refused(path, "cannot be given here", settings={"table": "1"})


def test_what_a_file_defines_can_travel_to_another_process(tmp_path: Path) -> None:
    train = load_workload(job(tmp_path, DATACLASS_JOB), {"steps": "9"})
    packed = cloudpickle.dumps(train)
    for name in [name for name in sys.modules if name.startswith("polyrhythm_job_")]:
        del sys.modules[name]  # as in a process that never loaded the file
    assert cloudpickle.loads(packed)(None) == (9, "a", False)


def test_a_function_without_keyword_parameters_takes_no_settings(tmp_path: Path) -> None:
    refused(job(tmp_path, "def train(worker):\n    pass\n"), "takes no settings", "epochs", "lr=0.1", settings={"epochs": "1"})


FUNCTION_JOB = """
def train(worker, lr=0.1, epochs: int = 3, clip: "float | None" = None, fast=False, label="a", free=None, table=(1,)):
    return (lr, epochs, clip, fast, label, free)
"""


def test_keyword_parameters_with_defaults_are_settings(tmp_path: Path) -> None:
    path = job(tmp_path, FUNCTION_JOB)
    assert load_workload(path)(None) == (0.1, 3, None, False, "a", None)  # type: ignore[arg-type]
    given = {"lr": "1", "epochs": "5", "clip": "0.5", "fast": "yes", "label": "7", "free": "2"}
    changed = load_workload(path, given)(None)  # type: ignore[arg-type]
    assert changed == (1.0, 5, 0.5, True, "7", 2)
    assert [type(value) for value in changed] == [float, int, float, bool, str, int]  # type: ignore[attr-defined]
    assert load_workload(path, {"clip": "none", "free": "text"})(None)[2::3] == (None, "text")  # type: ignore[arg-type, index]


def test_settings_of_a_function_are_refused_as_those_of_a_dataclass_are(tmp_path: Path) -> None:
    path = job(tmp_path, FUNCTION_JOB)
    with pytest.raises(UnknownNameError, match="Did you mean 'epochs'"):
        load_workload(path, {"epoch": "5"})
    with pytest.raises(UnknownNameError, match="There are"):  # the worker is given by us
        load_workload(path, {"worker": "5"})
    refused(path, "epochs must be a whole number", settings={"epochs": "2.5"})
    refused(path, "clip must be a number or none", settings={"clip": "much"})
    refused(path, "fast must be true or false", settings={"fast": "maybe"})
    refused(path, "cannot be given here", settings={"table": "1"})


def test_annotations_that_cannot_be_looked_up_leave_the_types_of_the_defaults(tmp_path: Path) -> None:
    path = job(tmp_path, "def train(worker: 'NoSuchType', epochs: int = 3):\n    return epochs\n")
    assert load_workload(path, {"epochs": "4"})(None) == 4  # type: ignore[arg-type]


def test_values_of_their_own_types_are_taken_as_they_are(tmp_path: Path) -> None:
    assert load_workload("digits-cnn", {"epochs": 5}) == DigitsCnn(epochs=5)
    assert load_workload(job(tmp_path, FUNCTION_JOB), {"lr": 0.5})(None)[0] == 0.5  # type: ignore[arg-type, index]


def test_a_function_with_settings_is_distinguished_by_them_and_travels(tmp_path: Path) -> None:
    train = load_workload(job(tmp_path, FUNCTION_JOB), {"lr": "0.5", "epochs": "7"})
    assert repr(train) == "train(epochs=7, lr=0.5)"
    packed = cloudpickle.dumps(train)
    del sys.modules["polyrhythm_job_job"]
    assert cloudpickle.loads(packed)(None)[:2] == (0.5, 7)


def test_another_function_is_named_after_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = job(tmp_path, "def fit(worker, lr=0.1):\n    return lr\n")
    assert load_workload(f"{path}:fit", {"lr": "0.5"})(None) == 0.5  # type: ignore[arg-type]
    refused(f"{path}:fti", "defines no fti", f"{path}:fit")
    refused(path, "defines no train", ":NAME")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "package_of_the_user").mkdir()
    (tmp_path / "package_of_the_user" / "module.py").write_text("def fit(worker):\n    return 3\n")
    assert load_workload("package_of_the_user.module:fit")(None) == 3  # type: ignore[arg-type]
    refused("package_of_the_user.modul:fit", "no module 'package_of_the_user.modul'")
    (tmp_path / "package_of_the_user" / "broken.py").write_text("\n1 / 0\n")
    refused("package_of_the_user.broken:fit", "package_of_the_user.broken, line 2", "ZeroDivisionError")
    refused("digits-cnn:fit", "bundled workload", "write digits-cnn alone")


def test_a_file_that_parses_arguments_finds_its_own(tmp_path: Path) -> None:
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float, default=0.1)\nlr = p.parse_args().lr\n"
    path = job(tmp_path, text + "def train(worker):\n    return lr\n")
    before = sys.argv
    with arguments(path, ["--lr", "0.5"]):
        assert load_workload(path)(None) == 0.5  # type: ignore[arg-type]
    assert sys.argv is before


def wrapped_exit(status: int) -> None:
    """As pr.join leaves it in its process: with a frame of its own behind argparse's."""
    raise SystemExit(status)


@pytest.mark.parametrize("exit", [sys.exit, wrapped_exit])
def test_a_file_that_refuses_its_arguments_reports_the_reason_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, exit: Callable[[int], None]
) -> None:
    monkeypatch.setattr(argparse._sys, "exit", exit)  # type: ignore[attr-defined]
    path = job(tmp_path, "import argparse\nargparse.ArgumentParser().parse_args()\ndef train(worker):\n    pass\n")
    for word, code in (("--lr", 2), ("--help", 0)):
        with arguments(path, [word]), pytest.raises(ScriptEnded) as caught:
            load_workload(path)
        assert caught.value.code == code
        assert "usage: job.py" in "".join(capsys.readouterr())
        assert pickle.loads(pickle.dumps(caught.value)).code == code


@pytest.mark.parametrize("call", ["pr.run(train, workers=2)", "pr.join()"])
def test_a_call_that_would_train_while_the_file_is_imported_is_refused(tmp_path: Path, call: str) -> None:
    text = "import polyrhythm as pr\ndef train(worker):\n    pass\ndef main():\n    {}\n{}\n"
    refused(job(tmp_path, text.format(call, "main()")), "line 5", call[:6], "train twice", "__main__")
    load_workload(job(tmp_path, text.format(call, 'if __name__ == "__main__":\n    main()')))


def test_a_missing_file_is_refused_with_the_nearest(tmp_path: Path) -> None:
    job(tmp_path, "", "train_net.py")
    refused(str(tmp_path / "train_nett.py"), "There is no file", "train_net.py")
    refused(str(tmp_path / "nowhere" / "job.py"), "There is no file", "digits-cnn")


def test_folders_and_files_that_are_not_python_are_refused(tmp_path: Path) -> None:
    refused(str(tmp_path), "is a folder")
    refused(job(tmp_path, "{}", "job.ipynb"), "not a Python file")


def test_a_syntax_error_is_reported_with_its_line(tmp_path: Path) -> None:
    path = job(tmp_path, "x = 1\ndef train(worker)\n    pass\n")
    refused(path, f"{path}, line 2", "SyntaxError", "def train(worker)")
    refused(job(tmp_path, "x = 1\n    y = 2\n"), "line 2", "IndentationError")


def test_a_syntax_error_in_an_imported_file_names_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "broken_beside_the_job.py").write_text("\n\nx = = 1\n")
    refused(job(tmp_path, "import broken_beside_the_job\n"), "broken_beside_the_job.py, line 3")


def test_an_exception_while_importing_is_reported_with_its_message_and_line(tmp_path: Path) -> None:
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
        load_workload(job(tmp_path, "1 / 0\n"), {})
    assert not re.search(r"Traceback|load\.py", str(caught.value))
