"""The job as its launcher gives it to each process: settings, and the program itself.

The program goes by cloudpickle, which takes functions of a script, a notebook cell or standard input along by value. It
is only ever read by the launcher's own children, from memory that the launcher handed them.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import msgspec

from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.errors import CompositionError

_LENGTH = struct.Struct("<Q")


class SharingGroup(msgspec.Struct, frozen=True):
    """A group of workers, and where its members find the memory that they share; empty if they cannot share any."""

    name: str
    members: tuple[str, ...]
    memory: str


class JobSpec(msgspec.Struct, frozen=True):
    """The settings that all processes of a job have in common: the launcher's surroundings, the run's secret and seed, settings."""

    environment: dict[bytes, bytes]
    directory: bytes
    path: list[bytes]
    arguments: list[bytes]
    """These four are bytes, as the system gives them: not all that it gives is text."""
    secret: bytes
    seed: int
    wiring: Wiring
    threads: int
    thresholds: tuple[float, float]
    """Seconds of waiting that an actor reports at once."""
    groups: list[SharingGroup] = []
    """The groups of workers whose sums have a way of their own."""
    gathering: list[SharingGroup] = []
    """Those that have collectives of their own."""
    store_port: int = 0
    """The port, at loopback, of the store for NCCL's communicators, for workers with CUDA devices."""
    ip: str = ""
    """The interface to be reached at from other hosts; empty for jobs of one host."""
    host: str = ""
    """The name of this host, if not the one it gives itself."""
    faults: bytes = b""
    """The run's faults as `actor_faults.pack` has them; empty where there are none."""
    fault_seed: int = 0
    """The seed from which lost messages are drawn."""
    changes: bool = False
    """True if workers may leave and join while the job runs."""
    counts: str = ""
    """Where the workers of such a job count their steps, as a path of `StepCounts`."""
    places: int = 0
    """The most workers that such a job may have."""
    expendable: list[str] = []
    """The actors without which the run continues, where there is no launcher to report losses."""


def surroundings() -> tuple[dict[bytes, bytes], bytes, list[bytes], list[bytes]]:
    """Environment, working directory, module path and arguments of this process."""
    arguments = getattr(sys, "argv", [""])
    return (
        dict(os.environb),
        os.getcwdb(),
        [os.fsencode(folder) for folder in module_path()],
        [os.fsencode(argument) for argument in arguments],
    )


def module_path() -> list[str]:
    """The folders where this process looks for modules: `sys.path` without what is no text, such as a `Path`, which Python skips too."""
    return [folder for folder in sys.path if isinstance(folder, str)]


def extend_module_path(folders: Iterable[str]) -> None:
    """Look for modules in `folders` too, after all others: those that are on this host."""
    sys.path.extend(folder for folder in folders if folder not in sys.path and os.path.exists(folder))


def pack(spec: JobSpec, work: object) -> int:
    """Put `spec` and `work` into anonymous memory: its descriptor. Raises CompositionError if `work` cannot travel."""
    head, body = msgspec.msgpack.encode(spec), pickled(work)
    descriptor = os.memfd_create("polyrhythm-job", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(_LENGTH.pack(len(head)) + head)
        file.write(body)
    return descriptor


def unpack(descriptor: int) -> tuple[JobSpec, Callable[[], Any]]:
    """The spec, and a function that gives the work: to be called when its module path is set."""
    memory = memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size, access=mmap.ACCESS_READ))
    start = _LENGTH.size + _LENGTH.unpack_from(memory)[0]
    spec = msgspec.msgpack.decode(memory[_LENGTH.size : start], type=JobSpec)
    return spec, lambda: pickle.loads(memory[start:])


def pickled(work: object) -> bytes:
    """`work` for another process. Raises CompositionError if it cannot travel."""
    with _by_value(_not_importable()):
        try:
            packed: bytes = cloudpickle.dumps(work)
        except (TypeError, AttributeError, pickle.PicklingError, NotImplementedError, ValueError) as problem:
            raise CompositionError(
                f"The training function cannot be sent to other processes, because something it refers to cannot be pickled: {problem}. "
                "Create that object inside the function."
            ) from problem
    return packed


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    """Have cloudpickle take the contents of `modules` along, and not their names."""
    registered = [module for module in modules if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _not_importable() -> list[ModuleType]:
    """The user's modules that a child would not find under their names: loaded from a file, or by a test runner."""
    installed = {str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    found = []
    for name, module in sys.modules.copy().items():  # at once: other threads import meanwhile
        file = getattr(module, "__file__", None)
        own = name.partition(".")[0] == __name__.partition(".")[0]
        if file is None or own or name == "__main__" or getattr(module, "__name__", None) != name or _under(file, installed):
            continue
        if not _importable(name, file):
            found.append(module)
    return found


def _under(file: str, folders: set[str]) -> bool:
    return any(file.startswith(folder + os.sep) for folder in folders) or any(part in file for part in ("site-packages", "dist-packages"))


def _importable(name: str, file: str) -> bool:
    spec, path = None, None
    at = ""
    for part in name.split("."):
        at = f"{at}.{part}" if at else part
        spec = _find(at, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(file)


def _find(name: str, path: list[str] | None) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name, path)
    except (ImportError, ValueError):
        return None
