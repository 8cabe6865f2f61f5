"""What children have from the process that launches them, whatever that is."""

import gc
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.errors import CompositionError


async def no_service(port: Port, record: Recorder) -> None:
    return None


def run(program: Callable[[WorkerContext], Message | None], workers: int = 1, on: Processes | None = None) -> Ending:
    return (on or Processes()).execute(Job(workers, 0, program, no_service, lambda name: True), lambda event: None)


def test_what_cannot_be_pickled_is_refused_with_a_sentence() -> None:
    lock = threading.Lock()

    def program(context: WorkerContext) -> None:
        lock.acquire()

    with pytest.raises(CompositionError, match=r"cannot be sent to other processes.*lock"):
        run(program)


def test_a_run_that_is_refused_leaves_no_descriptors() -> None:
    lock = threading.Lock()
    run(lambda context: None)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(CompositionError):
            run(lambda context: lock.acquire() and None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(CompositionError, match="threads=0"):
        Processes(threads=0)
    with pytest.raises(CompositionError, match="more than 0 seconds"):
        Processes(patience=0)


def test_children_may_hold_as_many_descriptors_as_the_system_lets_them() -> None:
    def program(context: WorkerContext) -> Message:
        return Message("limits", tuple(map(float, resource.getrlimit(resource.RLIMIT_NOFILE))))

    result = run(program).results["worker/0"]
    assert result is not None
    assert result.numbers[0] == result.numbers[1]


def test_children_have_the_surroundings_of_their_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLOUR", "green")

    def program(context: WorkerContext) -> Message:
        return Message("here", (torch.get_num_threads(),), f"{os.getcwd()} {os.environ['COLOUR']} {context.device}")

    result = run(program, on=Processes(threads=2, cuda=False)).results["worker/0"]
    assert result == Message("here", (2.0,), f"{tmp_path} green cpu")


def test_surroundings_need_not_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"COLOUR", b"gr\xfcn")
    monkeypatch.setattr(sys, "argv", ["script", os.fsdecode(b"caf\xe9")])
    monkeypatch.setattr(sys, "path", [*sys.path, Path("a", "path")])

    def program(context: WorkerContext) -> Message:
        return Message("here", text=str([os.environb[b"COLOUR"], os.fsencode(sys.argv[1])]))

    assert run(program).results["worker/0"] == Message("here", text=str([b"gr\xfcn", b"caf\xe9"]))


def test_what_children_print_comes_out_of_the_launcher(capfd: pytest.CaptureFixture[str]) -> None:
    def program(context: WorkerContext) -> None:
        print("to the output")
        print("to the errors", file=sys.stderr)

    run(program)
    assert capfd.readouterr() == ("to the output\n", "to the errors\n")


SCRIPT = """
import sys
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.spawn.launch import Processes
class Greeting:
    text = "hello"
def program(context):
    return Message(Greeting.text, text=context.port.name)
async def service(port, record):
    pass
ending = Processes().execute(Job(2, 1, program, service, lambda name: True), lambda event: None)
print(str(sorted(message.topic + " " + message.text for message in ending.results.values())))
"""


def test_a_launcher_may_have_no_standard_streams_and_many_open_files(tmp_path: Path) -> None:
    output, path = tmp_path / "output", tmp_path / "script.py"
    many = f"import os\nheld = [os.open({os.devnull!r}, 0) for _ in range(1100)]\nfor stream in range(3): os.close(stream)\n"
    path.write_text(many + SCRIPT.replace("print(", f"open({str(output)!r}, 'w').write("))
    done = subprocess.run([sys.executable, str(path)], timeout=120)
    assert (done.returncode, output.read_text()) == (0, "['hello worker/0', 'hello worker/1']")


@pytest.mark.parametrize("through", [pytest.param("script", marks=pytest.mark.long), "standard input"])
def test_a_script_needs_no_guard_and_no_file(tmp_path: Path, through: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    given = {"args": [sys.executable, str(path)]} if through == "script" else {"args": [sys.executable, "-"], "input": SCRIPT}
    done = subprocess.run(**given, capture_output=True, text=True, timeout=60)  # type: ignore[call-overload]
    assert (done.stdout, done.stderr, done.returncode) == ("['hello worker/0', 'hello worker/1']\n", "", 0)


def test_a_run_may_be_started_from_another_thread() -> None:
    endings: list[Ending] = []
    thread = threading.Thread(target=lambda: endings.append(run(lambda context: Message("done"), workers=2)))
    thread.start()
    thread.join()
    assert list(endings[0].results) == ["worker/0", "worker/1"]
