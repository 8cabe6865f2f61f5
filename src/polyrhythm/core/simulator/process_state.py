"""What belongs to a process and is each program's own, where programs share one: random generators, environment, arguments, directory."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import torch

from polyrhythm.core.simulator.randomness import Randomness
from polyrhythm.core.torch_private import module_state


class ProcessState(Randomness):
    """The state of one program, as it was when it was last switched out; for programs that are written as if they had a process each."""

    __slots__ = ("_argv", "_directory", "_dtype", "_environment", "_main", "_modules", "_path")

    def save(self) -> None:
        """Take the state of the process."""
        super().save()
        self._argv, self._path = sys.argv, sys.path
        self._main: ModuleType = sys.modules["__main__"]
        self._environment = dict(os.environ)
        self._directory = os.getcwd()
        self._dtype = torch.get_default_dtype()
        self._modules = module_state()

    def load(self, current: Randomness) -> None:
        """Put the state back; `current` was the last to be saved."""
        super().load(current)
        assert isinstance(current, ProcessState)
        sys.argv, sys.path = self._argv, self._path
        sys.modules["__main__"] = self._main
        if self._environment != current._environment:
            for name in current._environment.keys() - self._environment.keys():
                os.environ.pop(name, None)
            os.environ.update(self._environment)
        if self._directory != current._directory:
            os.chdir(self._directory)
        if self._dtype != current._dtype:
            torch.set_default_dtype(self._dtype)
        module_state(self._modules)
