"""Opens an ExecuTorch model; run as a script by `time_model.py`, which is beside it.

Its runtime for Python needs torch, which is not weighed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from executorch.runtime import Runtime  # type: ignore[import-not-found,import-untyped,unused-ignore]

torch.set_num_threads(1)


def open_model(path: str, inputs: dict[str, Any]) -> Callable[[], object]:
    """A function that computes the outputs of `inputs` once."""
    loaded = Runtime.get().load_program(path)
    method = loaded.load_method("forward")
    given = [torch.from_numpy(each) for each in inputs.values()]
    return lambda: (loaded, method.execute(given))
