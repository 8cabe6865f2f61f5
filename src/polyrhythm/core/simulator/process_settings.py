"""The settings of Python and torch that hold for a whole process, and how to read and to set them."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from operator import attrgetter, is_not
from typing import Any

import torch
from torch import multiprocessing as torch_multiprocessing
from torch.backends import cuda, cudnn

from polyrhythm.core.torch_private.one_process import print_options

mkldnn: Any = torch.backends.mkldnn
Setting = tuple[Callable[[], Any], Callable[[Any], Any]]

REFERENCES: list[tuple[Any, tuple[str, ...]]] = [
    (sys, ("argv", "path", "stdin", "stdout", "stderr", "excepthook", "unraisablehook", "displayhook")),
    (threading, ("excepthook",)),
    (warnings, ("showwarning", "formatwarning")),
    (logging, ("_loggerClass", "_logRecordFactory", "_warnings_showwarning")),
    (logging.root, ("handlers",)),
    (logging.Logger.manager, ("loggerDict",)),
    (tempfile, ("tempdir",)),
]
"""Variables of modules, which cost next to nothing to be set."""

_READ = [(where, attrgetter(*names)) for where, names in REFERENCES]
_WRITE = [(where, name) for where, names in REFERENCES for name in names]


def references() -> list[Any]:
    """What the variables are now, in their order."""
    found: list[Any] = []
    for where, read in _READ:
        value = read(where)
        found.extend(value if type(value) is tuple else (value,))
    return found


def put_references(values: list[Any], current: list[Any]) -> None:
    """Set the variables, which are `current`."""
    if any(map(is_not, values, current)):
        for (where, name), value in zip(_WRITE, values, strict=True):
            setattr(where, name, value)


def _matmul_precision() -> str | None:
    """None where it is set for each library by itself, of which torch then makes an error."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _set_matmul_precision(precision: str | None) -> None:
    if precision is not None:
        torch.set_float32_matmul_precision(precision)


def _of(where: Any, name: str) -> Setting:
    return lambda: getattr(where, name), lambda value: setattr(where, name, value)


SETTINGS: list[Setting] = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    _of(torch.utils.deterministic, "fill_uninitialized_memory"),
    (_matmul_precision, _set_matmul_precision),
    *(_of(library, "fp32_precision") for library in (torch.backends, mkldnn.matmul, mkldnn.conv)),  # ranks compute on the CPU
    (lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()), lambda mode: torch.autograd.set_detect_anomaly(*mode)),
    *(_of(cudnn, name) for name in ("benchmark", "deterministic")),
    _of(mkldnn, "enabled"),
    (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    (torch.is_warn_always_enabled, torch.set_warn_always),
    (print_options, lambda options: torch.set_printoptions(**options)),  # type: ignore[no-untyped-call]
    (torch_multiprocessing.get_sharing_strategy, torch_multiprocessing.set_sharing_strategy),
    (lambda: multiprocessing.get_start_method(allow_none=True), lambda method: multiprocessing.set_start_method(method, force=True)),
    (os.getcwd, os.chdir),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.getswitchinterval, sys.setswitchinterval),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (gc.isenabled, lambda wanted: (gc.enable if wanted else gc.disable)()),
    (gc.get_threshold, lambda thresholds: gc.set_threshold(*thresholds)),
    (lambda: logging.root.level, logging.root.setLevel),
    (lambda: logging.root.manager.disable, logging.disable),
]
"""How to get and set what is compared first, because to set it costs more."""
