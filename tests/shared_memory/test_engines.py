"""Which engine a group has."""

from __future__ import annotations

import importlib.util
import inspect
import platform
import sys

import pytest

from polyrhythm.core.shared_memory import MemoryGroup, can_share
from polyrhythm.core.shared_memory.native import Native
from polyrhythm.core.shared_memory.portable import Portable


@pytest.mark.parametrize(("problem", "goes_on"), [(ModuleNotFoundError, True), (ImportError, False)], ids=["missing", "broken"])
def test_without_the_engine_in_c_torch_does_its_work_unless_it_is_there_and_broken(
    problem: type[ImportError], goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name == "polyrhythm.core.shared_memory._native":
                raise problem(f"no {name}", name=name)

    for name in ("native", "_native"):
        monkeypatch.delitem(sys.modules, f"polyrhythm.core.shared_memory.{name}")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    spec = importlib.util.spec_from_file_location("group_again", inspect.getfile(MemoryGroup))
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    if goes_on:
        spec.loader.exec_module(again)
        assert again.Native is Portable
    else:
        with pytest.raises(ImportError, match="no polyrhythm"):
            spec.loader.exec_module(again)


@pytest.mark.parametrize(
    ("engine", "machine", "can"), [(Native, "aarch64", True), (Portable, "aarch64", False), (Portable, "x86_64", True)], ids=str
)
def test_without_the_engine_in_c_memory_is_shared_on_one_kind_of_processor_only(
    engine: type, machine: str, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyrhythm.core.shared_memory.group.Native", engine)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert can_share() == can
