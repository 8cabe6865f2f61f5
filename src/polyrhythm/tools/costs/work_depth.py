"""The work and the depth of what a program computes, as its operations come to torch's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from polyrhythm.core.torch_private.one_process import address_of_storage
from polyrhythm.errors import CompositionError
from polyrhythm.tools.costs.operators import cost_of


@dataclass(frozen=True)
class WorkDepth:
    """The `work` of a program, and the `depth` of its longest path (Ben-Nun and Hoefler, 2019, section 2.4).

    `products` is the part of the work that is multiply-adds of matrix products, convolutions, attention and recurrent layers: half of what
    torch's FlopCounterMode counts. `moved` are the bytes that operations with work read and write, each from memory. `operators` has the
    calls and the work of each operation, the most work first.
    """

    work: int
    depth: float
    products: int
    moved: int = 0
    operators: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def parallelism(self) -> float:
        """The average parallelism, work over depth: more processors than this cannot all be busy."""
        return self.work / self.depth if self.depth else float(self.work)

    @property
    def intensity(self) -> float:
        """Work for each byte that is moved: what a roofline is drawn over."""
        return self.work / self.moved if self.moved else 0.0

    def attainable(self, peak: float, bandwidth: float) -> float:
        """The most work a second under a roofline of `peak` work and `bandwidth` bytes a second (Williams et al., 2009)."""
        return min(peak, self.intensity * bandwidth)

    def bound(self, processors: int) -> float:
        """The most steps that a greedy schedule needs on so many processors, W / p + D (Brent, 1974)."""
        return self.work / processors + self.depth


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the work, and follows the depth of each tensor by the memory that it is in.

    An operation begins when all that it reads is there. Memory that several views share is there when all of it is.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work = self.products = self.moved = 0
        self.depth = 0.0
        self._operators: dict[str, list[int]] = {}
        self._ready: dict[int, float] = {}

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().partition("::")[2].partition(".")[0]
        cost = cost_of(name, out, args)
        read = list(_memories((args, kwargs)))
        ready = max((self._ready.get(each, 0.0) for each in read), default=0.0) + cost.depth
        for each in _memories(out):
            self._ready[each] = max(ready, self._ready.get(each, 0.0)) if each in read else ready  # new memory may have an old address
        self.work, self.products, self.depth = self.work + cost.work, self.products + cost.products, max(self.depth, ready)
        if cost.work:
            self.moved += sum(each.numel() * each.element_size() for each in _tensors((args, kwargs, out)))
            totals = self._operators.setdefault(name, [0, 0])
            totals[0] += 1
            totals[1] += cost.work
        return out

    def found(self) -> WorkDepth:
        """What was recorded so far."""
        order = sorted(self._operators.items(), key=lambda each: -each[1][1])
        return WorkDepth(self.work, self.depth, self.products, self.moved, {name: (calls, work) for name, (calls, work) in order})


def _tensors(values: Any) -> Iterator[Tensor]:
    return (each for each in tree_leaves(values) if isinstance(each, Tensor))


def _memories(values: Any) -> Iterator[int]:
    return (address_of_storage(each) for each in _tensors(values))


def work_depth(program: Callable[[], Any]) -> WorkDepth:
    """The work and the depth of `program()`, of what it computes on its way back too where it calls `backward`.

    Examples:
        >>> a, b = torch.ones(4, 8), torch.ones(8, 2)
        >>> found = work_depth(lambda: a @ b)
        >>> found.work, found.depth
        (64, 3.0)
    """
    seen = _Recorder()
    with seen:
        program()
    return seen.found()


def training_work_depth(model: nn.Module, inputs: Sequence[Any]) -> tuple[WorkDepth, WorkDepth]:
    """The work and the depth of `model(*inputs)` in training, and of that with the way back from the sum of its outputs.

    Raises CompositionError for a model without outputs of numbers.
    """
    own = deepcopy(model).train()  # statistics of batch normalization change
    parameters = [each for each in own.parameters() if each.requires_grad]
    seen = _Recorder()
    with torch.random.fork_rng(devices=[]), seen:
        found = own(*inputs)
        forward = seen.found()
        outputs = [each for each in tree_leaves(found) if isinstance(each, Tensor) and each.requires_grad]
        if not outputs:
            raise CompositionError(f"{type(model).__name__} has no output that depends on its parameters: it cannot be trained.")
        torch.autograd.grad(outputs, parameters, [torch.ones_like(each) for each in outputs], allow_unused=True)
    return forward, seen.found()
