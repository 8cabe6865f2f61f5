"""Optional libraries (pip extras), imported when they are first needed.

Launchers, loggers, the reader of Arrow columns and the Ray pool call `needed`.
"""

from __future__ import annotations

import importlib
from typing import Any

from polyrhythm.errors import CompositionError


def needed(module: str, extra: str) -> Any:
    """The library's module. Raises CompositionError where it is not installed, with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise CompositionError(f"{module} cannot be imported ({problem}): install it, with pip install 'polyrhythm[{extra}]'.") from problem
