"""The step of an attached optimizer: what the user calls in its place, and the optimizer's own, which the library calls.

Hooks that users register on `optimizer.step()` are called once per step of theirs, however and wherever steps are then taken.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from polyrhythm.core.strategy.optimizers.step_arguments import StepArguments, without_arguments
from polyrhythm.core.strategy.watching.step_watch import STEPS, StepWatch
from polyrhythm.core.torch_private.one_process import is_wrapped_by_scheduler, mark_stepped, step_post_hooks, step_pre_hooks
from polyrhythm.errors import CompositionError

Step = Callable[..., Any]


def attached_step(optimizer: torch.optim.Optimizer, watch: StepWatch, stepping: Callable[[], None], settle: Callable[[], None]) -> Step:
    """The replacement of `optimizer.step`, which calls `stepping`; `Replica` puts it there.

    The hooks of the optimizer and of all optimizers are called before and after it, once: pre-hooks see the worker's own gradients, and
    `settle` makes the weights those after the step, for the post-hooks. `watch` counts the step, also one that is skipped.
    """
    arguments = StepArguments(optimizer)

    def step(optimizer: torch.optim.Optimizer, *others: Any, **options: Any) -> Any:
        given: tuple[Any, ...] = (optimizer, *others)
        watch.inside += 1
        try:
            for before in step_pre_hooks(optimizer):
                if before is not STEPS.hook and (replaced := before(optimizer, given, options)) is not None:
                    given, options = replaced
            closure = arguments.closure(given[1:], options) if given[1:] or options else None
            if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
                raise _scaled()
            mark_stepped(optimizer)
            loss = None
            if closure is not None:  # once: optimizers that need several evaluations were refused when they were attached
                with torch.enable_grad():
                    loss = closure()
            stepping()
            following = step_post_hooks(optimizer)
            if following:
                settle()
            for after in following:
                after(optimizer, given, options)
        finally:
            watch.inside -= 1
        watch.taken += 1
        return loss

    return step


def own_step(optimizer: torch.optim.Optimizer, watch: StepWatch, counted: Callable[[Callable[[], Any]], Any]) -> Callable[[], None]:
    """The optimizer's own step, without hooks: torch puts them around the method of the class. `watch` counts it as the library's.

    `counted` is the runtime's, for the operations of the user's optimizer.
    """
    step = _of_class(optimizer)
    plain: Callable[[], Any] = optimizer.step
    name = ""
    if step is not None and getattr(step, "hooked", False):
        plain, name = MethodType(step.__wrapped__, optimizer), f"Optimizer.step#{type(optimizer).__name__}.step"  # type: ignore[attr-defined]
    plain = without_arguments(optimizer, plain)

    def take() -> None:
        watch.inside += 1
        try:
            if name:
                with torch.autograd.profiler.record_function(name):  # as torch has it
                    counted(plain)
            else:
                counted(plain)
        finally:
            watch.inside -= 1
        watch.taken += 1

    return take


def _scaled() -> CompositionError:
    return CompositionError(
        "GradScaler lets each worker decide by itself to skip a step, so they would get out of step: use torch.autocast with bfloat16, "
        "which needs no scaler."
    )


def refuse_replaced(optimizer: torch.optim.Optimizer, once: bool) -> None:
    """Raise CompositionError for a step that somebody has put in the place of the class's, unless it is called `once` a step."""
    if not once and _of_class(optimizer) is None:
        raise CompositionError(
            f"step() of this {type(optimizer).__name__} was replaced before worker.attach, and under this system it is not called once a "
            "step: servers take it, or it is taken in parts, or passed over. Use register_step_pre_hook and register_step_post_hook, or "
            "replace step() after worker.attach."
        )


def _of_class(optimizer: torch.optim.Optimizer) -> Step | None:
    """The step of its class, if it has no other; a learning-rate scheduler's wrapper is looked through."""
    own: Any = vars(optimizer).get("step")
    if own is not None and is_wrapped_by_scheduler(own):
        own = getattr(own, "__wrapped__", own)
    of_class: Step = type(optimizer).step
    return of_class if own is None or own is of_class else None
