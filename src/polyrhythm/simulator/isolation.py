"""What torch keeps for each thread, kept apart for programs that share one: grad mode and autocast."""

from __future__ import annotations

import torch

from polyrhythm.errors import WorkloadError


class ThreadState:
    """Grad mode and autocast of a program, as they were when it was last switched out."""

    __slots__ = ("_autocast", "_depth", "_dtype", "_grad")

    def __init__(self) -> None:
        self._grad = True
        self._autocast = False
        self._depth = 0
        self._dtype = torch.bfloat16

    def save(self) -> None:
        """Take the thread's state, and give the thread the usual one."""
        self._grad = torch.is_grad_enabled()
        if not self._grad:
            torch.set_grad_enabled(True)
        self._autocast = torch.is_autocast_enabled("cpu")
        if self._autocast:
            self._leave_autocast()

    def load(self) -> None:
        """Put the state back on the thread, which has the usual one."""
        if not self._grad:
            torch.set_grad_enabled(False)
        if self._autocast:
            torch.set_autocast_enabled("cpu", True)
            torch.set_autocast_dtype("cpu", self._dtype)
            for _ in range(self._depth):
                torch.autocast_increment_nesting()

    def _leave_autocast(self) -> None:
        """The cache of cast weights is emptied at nesting 0, so another program must not start out inside this one's nesting."""
        self._dtype = torch.get_autocast_dtype("cpu")
        self._depth = 1
        while torch.autocast_decrement_nesting() > 0:
            self._depth += 1
        torch.clear_autocast_cache()
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def refuse_unsafe_places() -> None:
    """Refuse to switch where torch keeps state on the thread that cannot be taken off it and put back."""
    if torch.is_inference_mode_enabled():
        raise WorkloadError(
            "A worker of the simulator cannot communicate inside torch.inference_mode(), because all workers share one thread. "
            "Leave it first, or use torch.no_grad()."
        )
    if torch._C._current_graph_task_id() != -1:
        raise WorkloadError(
            "A worker of the simulator cannot communicate inside backward(), because all workers share one thread. "
            "Let the hook only note what is to be sent, and send it in optimizer.step()."
        )
