"""A program that waits serves the loop of its process itself, so that no thread has to wake another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.system.signals import DeferredSignals
from polyrhythm.core.processes.transport.loop import Callback, EventLoop
from polyrhythm.core.torch_private.one_process import has_modes


def drive(loop: EventLoop, first: Callback, completion: Completion, fail: Callable[[BaseException], None]) -> bool:
    """Call `first` in `loop`, and serve that in this thread until `completion` is finished; False, and nothing done, if another one does.

    Handlers of signals run outside of the loop, in between, and what they raise comes out of here. What callbacks raise is given to `fail`,
    in the loop.
    """
    calls: tuple[Callback, ...] = (first,)
    while True:
        # coroutines see what the loop's own thread would show them, and not a program's `no_grad`
        with DeferredSignals(loop.wake) as signals, torch.enable_grad():
            try:
                if not loop.drive(calls, lambda: completion.finished or bool(signals.noted)):
                    return not calls
            except Exception as problem:  # it is reported, and the loop continues: coroutines that wait for it must be resumed
                loop.call(partial(fail, problem))
        calls = ()
        if completion.finished:
            return True


def serves_alike(device: str) -> bool:
    """True if coroutines compute in this thread as in any other: a program's autocast, default device or CUDA stream is its own."""
    return not (device != "cpu" or torch.is_inference_mode_enabled() or has_modes())
