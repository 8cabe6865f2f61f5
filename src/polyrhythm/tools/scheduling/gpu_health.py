"""The health of the GPUs of this host, as NVIDIA's management library says it, where it is installed (`nvidia-ml-py`)."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


def broken_gpus() -> list[int] | None:
    """The numbers of GPUs that do not answer, or have memory that must not be used; None where there is no driver to ask."""
    library = _library()
    if library is None:
        return None
    return [number for number in range(library.nvmlDeviceGetCount()) if _is_broken(library, number)]


def _is_broken(library: Any, number: int) -> bool:
    try:
        handle = library.nvmlDeviceGetHandleByIndex(number)
        library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)
    except library.NVMLError:
        return True  # a GPU that has fallen off the bus does not answer
    try:
        pending = library.nvmlDeviceGetRetiredPagesPendingStatus(handle)
    except library.NVMLError:  # not every GPU has pages that can be retired
        return False
    return bool(pending == library.NVML_FEATURE_ENABLED)


@cache
def _library() -> Any:
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
    except (ImportError, OSError):
        return None
    except Exception as problem:
        if type(problem).__name__.startswith("NVMLError"):  # the class is the module's, which a machine without a driver does not finish
            return None
        raise
    return library
