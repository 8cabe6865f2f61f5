"""Libraries that keep the state of torch.distributed in a variable of the process: each rank gets its own, as long as a run lasts.

They may be imported before the run, or by the first rank that needs them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_SHARED = {"accelerate.state": ("PartialState", "AcceleratorState", "GradientState")}
"""By module, the classes whose objects share one dictionary, `_shared_state`: accelerate's."""
_NAME = "_shared_state"


class _ByThread(threading.local):
    """A dictionary of each thread, in the place of one of a class."""

    def __init__(self) -> None:
        self.own: dict[str, Any] = {}

    def __get__(self, instance: object, owner: type | None = None) -> dict[str, Any]:
        return self.own


class _Following(MetaPathFinder):
    """Finds the modules as others do, and divides what they share once they are imported."""

    def __init__(self) -> None:
        self._busy = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of the module, whose loader divides it."""
        if name not in _SHARED or self._busy:
            return None
        self._busy = True
        try:
            found = find_spec(name)
        finally:
            self._busy = False
        if found is not None and found.loader is not None:
            found.loader = _Dividing(found.loader)
        return found


class _Dividing(Loader):
    def __init__(self, theirs: Loader) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._theirs.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._theirs.exec_module(module)
        _divide(module)


def _divide(module: ModuleType) -> None:
    for name in _SHARED[module.__name__]:
        if (kind := getattr(module, name, None)) is not None:
            setattr(kind, _NAME, _ByThread())


@contextmanager
def libraries_divided() -> Iterator[None]:
    """Divide them for the time of a run; afterwards they have the state that they had."""
    before = [
        (kind, kind.__dict__[_NAME])
        for where, names in _SHARED.items()
        for name in names
        if (kind := getattr(sys.modules.get(where), name, None)) is not None
    ]
    follower = _Following()
    sys.meta_path.insert(0, follower)
    for where in _SHARED:
        if where in sys.modules:
            _divide(sys.modules[where])
    try:
        yield
    finally:
        sys.meta_path.remove(follower)
        kept = {id(kind) for kind, _ in before}
        for kind, shared in before:
            setattr(kind, _NAME, shared)
        for where, names in _SHARED.items():
            for name in names:
                if (kind := getattr(sys.modules.get(where), name, None)) is not None and id(kind) not in kept:
                    setattr(kind, _NAME, {})
