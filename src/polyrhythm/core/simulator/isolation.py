"""Torch's state of a thread, kept apart for programs that share one thread: grad mode, autocast, hooks of saved tensors."""

from __future__ import annotations

from typing import Any

import torch

from polyrhythm.core.torch_private.one_process import backward_pass, put_saved_tensor_hooks, take_saved_tensor_hooks
from polyrhythm.errors import WorkloadError


class ThreadState:
    """The state that a program had when it was last switched out, perhaps inside a forward pass: of a checkpoint, under autocast."""

    __slots__ = ("_autocast", "_cached", "_depth", "_dtype", "_grad", "_saving")

    def __init__(self) -> None:
        self._grad = True
        self._autocast = False
        self._depth = 0
        self._dtype = torch.bfloat16
        self._cached = True
        self._saving: list[tuple[Any, Any]] = []

    def save(self) -> None:
        """Take the thread's state, and give the thread the usual one."""
        self._grad = torch.is_grad_enabled()
        if not self._grad:
            torch.set_grad_enabled(True)
        self._depth = torch.autocast_increment_nesting() - 1
        torch.autocast_decrement_nesting()
        if self._depth:
            self._leave_autocast()
        self._saving += take_saved_tensor_hooks()

    def load(self) -> None:
        """Put the state back on the thread, which has the usual one."""
        if not self._grad:
            torch.set_grad_enabled(False)
        if self._depth:
            torch.set_autocast_enabled("cpu", self._autocast)
            torch.set_autocast_dtype("cpu", self._dtype)
            torch.set_autocast_cache_enabled(self._cached)
            for _ in range(self._depth):
                torch.autocast_increment_nesting()
        if self._saving:
            put_saved_tensor_hooks(self._saving)

    def _leave_autocast(self) -> None:
        """The cache of cast weights is emptied at nesting 0, so another program must not start out inside this one's nesting.

        A program may be inside of autocast(enabled=False), and that inside of an autocast that is not.
        """
        self._autocast = torch.is_autocast_enabled("cpu")
        self._dtype = torch.get_autocast_dtype("cpu")
        self._cached = torch.is_autocast_cache_enabled()
        while torch.autocast_decrement_nesting() > 0:
            pass
        torch.clear_autocast_cache()
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.set_autocast_cache_enabled(True)


def refuse_unsafe_places() -> None:
    """Refuse to switch where torch keeps state on the thread that cannot be taken off it and put back."""
    if torch.is_inference_mode_enabled():
        raise WorkloadError(
            "A worker of the simulator cannot communicate inside torch.inference_mode(), because all workers share one thread. "
            "Leave it first, or use torch.no_grad()."
        )
    if backward_pass() != -1:
        raise WorkloadError(
            "A worker of the simulator cannot communicate inside backward(), because all workers share one thread. "
            "Let the hook only note what is to be sent, and send it in optimizer.step()."
        )
