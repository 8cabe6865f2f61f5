"""weights.safetensors: the final weights and buffers, and a check that such a file is complete."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from polyrhythm.errors import CompositionError


def write(weights: dict[str, Tensor], path: Path) -> None:
    """Write `weights` to `path`. Raises OSError, or CompositionError for tensors and names that such a file cannot hold."""
    try:
        save_file(_apart(weights), path)
        check(path)  # a parameter may have a name that means something else in the file
    except SafetensorError as problem:
        raise OSError(str(problem)) from None  # its own name for a full disk
    except (ValueError, KeyError, RuntimeError, TypeError) as problem:
        message = str(problem).strip().split("\n", 1)[0] or type(problem).__name__
        raise CompositionError(f"Safetensors cannot hold these weights: {message}") from None


def check(path: Path) -> None:
    """Raise SafetensorError or OSError unless the file at `path` has the length that its header declares."""
    with safe_open(path, framework="pt"):
        pass


def _apart(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors on the CPU, each in separate memory, which the format requires."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in weights.items():
        mine = tensor.detach().cpu().contiguous()
        if mine.numel() and mine.untyped_storage().data_ptr() in seen:
            mine = mine.clone()
        apart[name] = mine
        seen.add(mine.untyped_storage().data_ptr())
    return apart
