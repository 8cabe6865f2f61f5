"""What belongs to a process and is each program's own, where programs share one: random generators, environment, modules, settings."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from types import ModuleType

from polyrhythm.core.simulator.process_settings import SETTINGS, put_references, references
from polyrhythm.core.simulator.randomness import Randomness
from polyrhythm.core.torch_private.distributed import module_state, separate_module_state

_MAIN = ("__main__", "__mp_main__")
_INSTALLED = ("site-packages", "dist-packages")


def _environ() -> dict[bytes, bytes]:
    """The variables as Python keeps them: `os.environ.copy()` decodes each, which takes 20 times as long."""
    kept: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    return kept


class OwnModules:
    """The modules from below `folder` that are imported after this was made: each program's own. None where it is "" """

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._others = {name.partition(".")[0] for name in sys.modules}

    def found(self) -> dict[str, ModuleType]:
        """Those that are imported now, by name."""
        return {name: module for name, module in sys.modules.items() if self._is_own(name, module)} if self._folder else {}

    def _is_own(self, name: str, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None) or ""
        installed = any(part in file for part in _INSTALLED)
        return file.startswith(self._folder) and name.partition(".")[0] not in self._others and not installed


class ProcessState(Randomness):
    """The state of one program, as it was when it was last switched out; for programs that are written as if they had a process each."""

    __slots__ = ("_environment", "_known", "_main", "_modules", "_own", "_owns", "_references", "_settings", "_warnings")

    def __init__(self, owns: OwnModules) -> None:
        self._owns = owns
        self._own: dict[str, ModuleType] = {}
        self._known = 0
        super().__init__()

    def save(self) -> None:
        """Take the state of the process."""
        super().save()
        self._references = references()
        self._environment = _environ().copy()
        self._settings = [get() for get, _ in SETTINGS]
        self._warnings = warnings.filters[:]
        self._modules = module_state()
        if len(sys.modules) != self._known or any(sys.modules.get(name) is not module for name, module in self._own.items()):
            self._own = self._owns.found()
            self._known = len(sys.modules)
        self._main = {name: sys.modules[name] for name in _MAIN if name in sys.modules}

    def load(self, current: Randomness) -> None:
        """Put the state back; `current` was the last to be saved."""
        super().load(current)
        assert isinstance(current, ProcessState)
        put_references(self._references, current._references)
        if self._environment != current._environment:
            for variable in current._environment.keys() - self._environment.keys():
                del os.environb[variable]
            for variable, value in self._environment.items() - current._environment.items():
                os.environb[variable] = value
        for (_, put), value, other in zip(SETTINGS, self._settings, current._settings, strict=True):
            if value != other:
                put(value)
        if self._warnings != current._warnings:
            warnings.filters[:] = self._warnings  # type: ignore[index]
            with warnings.catch_warnings():  # which has them read anew
                pass
        module_state(self._modules)
        sys.modules.update(self._main)
        if self._own or current._own:
            for name in current._own.keys() - self._own.keys():
                sys.modules.pop(name, None)
            sys.modules.update(self._own)
            self._known = len(sys.modules)


def separate() -> None:
    """Let the program that begins change its own lists of arguments, folders, hooks, loggers and their handlers, not those of all."""
    separate_module_state()
    sys.argv, sys.path = list(sys.argv), list(sys.path)
    logging.root.handlers = list(logging.root.handlers)
    logging.Logger.manager.loggerDict = dict(logging.Logger.manager.loggerDict)
