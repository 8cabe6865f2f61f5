"""Hooks that users register on `optimizer.step()`: called once per step of theirs, however and wherever steps are then taken."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch.optim import optimizer as hooks

from polyrhythm.errors import CompositionError

Step = Callable[..., Any]


def hooked(step: Step, settle: Callable[[], None]) -> Step:
    """`step`, between the hooks of the optimizer that is its first argument, and those of all optimizers.

    Pre-hooks see the worker's own gradients. `settle` makes the weights those after the step, for the post-hooks.
    """

    def with_hooks(optimizer: torch.optim.Optimizer, *others: Any, **options: Any) -> Any:
        given: tuple[Any, ...] = (optimizer, *others)
        for before in (*hooks._global_optimizer_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values()):
            replaced = before(optimizer, given, options)
            if replaced is not None:
                given, options = replaced
        result = step(*given, **options)
        following = (*optimizer._optimizer_step_post_hooks.values(), *hooks._global_optimizer_post_hooks.values())
        if following:
            settle()
        for after in following:
            after(optimizer, given, options)
        return result

    return with_hooks


def without_hooks(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """The optimizer's own step, which calls no hooks: torch puts them around the method of the class."""
    step = _of_class(optimizer)
    if step is None or not getattr(step, "hooked", False):
        return optimizer.step
    plain, name = MethodType(step.__wrapped__, optimizer), f"Optimizer.step#{type(optimizer).__name__}.step"  # type: ignore[attr-defined]

    def take() -> None:
        with torch.autograd.profiler.record_function(name):  # as torch has it
            plain()

    return take


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
    if own is not None and getattr(own, "_wrapped_by_lr_sched", False):
        own = getattr(own, "__wrapped__", own)
    of_class: Step = type(optimizer).step
    return of_class if own is None or own is of_class else None
