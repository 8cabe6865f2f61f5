"""Where a training function computes: the calls of its models, and `backward()`. They are intercepted for the time of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Interceptor(Protocol):
    """Computes what was intercepted."""

    def call(self, model: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`forward(model, *args, **kwargs)`."""

    def swept(self, again: bool) -> None:
        """A backward pass is over; it was to be made `again`, or itself differentiated."""

    def differentiates(self) -> None:
        """`torch.autograd.grad` is called."""


class Interception:
    """Replaces `forward` of the classes of models, not of the models, which stay as they are to be copied and saved."""

    def __init__(self, interceptor: Interceptor) -> None:
        self._interceptor = interceptor
        self._undo: list[Callable[[], None]] = []
        self._classes: set[type] = set()

    def begin(self) -> None:
        """Intercept backward passes."""
        interceptor, backward, grad = self._interceptor, torch.autograd.backward, torch.autograd.grad

        @wraps(backward)
        def swept(*args: Any, **kwargs: Any) -> None:
            backward(*args, **kwargs)
            interceptor.swept(bool(kwargs.get("retain_graph") or kwargs.get("create_graph") or any(each is True for each in args[2:4])))

        @wraps(grad)
        def differentiated(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
            interceptor.differentiates()
            found: tuple[Tensor, ...] = grad(*args, **kwargs)
            return found

        torch.autograd.backward, torch.autograd.grad = swept, differentiated  # type: ignore[assignment]
        self._undo.append(lambda: self._put_back(backward, grad))

    def take(self, kind: type[nn.Module]) -> None:
        """Intercept the calls of models of this class."""
        if kind in self._classes:
            return
        self._classes.add(kind)
        interceptor, forward, own = self._interceptor, kind.forward, "forward" in vars(kind)

        @wraps(forward)
        def called(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return interceptor.call(model, forward, args, kwargs)

        kind.forward = called
        self._undo.append((lambda: setattr(kind, "forward", forward)) if own else (lambda: delattr(kind, "forward")))

    def end(self) -> None:
        """Put all back."""
        while self._undo:
            self._undo.pop()()
        self._classes.clear()

    @staticmethod
    def _put_back(backward: Any, grad: Any) -> None:
        torch.autograd.backward, torch.autograd.grad = backward, grad
