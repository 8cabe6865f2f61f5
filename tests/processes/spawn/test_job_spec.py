import importlib.util
import os
import sys
from pathlib import Path

import pytest

from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn.launch import Processes


async def no_service(port: Port, record: object) -> None:
    return None


def test_a_module_that_was_loaded_from_a_file_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my_job.py"
    path.write_text("FACTOR = 21\ndef train(context):\n    return helper(2)\ndef helper(x):\n    return FACTOR * x\n")
    spec = importlib.util.spec_from_file_location("my_job", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_job", module)
    spec.loader.exec_module(module)

    def program(context: WorkerContext) -> Message:
        return Message("answer", (module.train(context),))

    result = Processes().execute(Job(1, 0, program, no_service, lambda name: True), lambda event: None).results["worker/0"]
    assert result is not None
    assert result.numbers == (42.0,)


def test_a_module_on_the_path_is_imported_by_the_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_module.py").write_text("import os\nPROCESS = os.getpid()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import their_module  # type: ignore[import-not-found]

    def program(context: WorkerContext) -> Message:
        return Message("own", (os.getpid() == their_module.PROCESS,))

    result = Processes().execute(Job(1, 0, program, no_service, lambda name: True), lambda event: None).results["worker/0"]
    monkeypatch.delitem(sys.modules, "their_module")
    assert result is not None
    assert result.numbers == (1.0,)
