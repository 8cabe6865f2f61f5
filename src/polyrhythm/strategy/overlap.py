"""Gradients that leave, bucket by bucket, while `backward()` computes the others."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from polyrhythm.errors import WorkloadError
from polyrhythm.kernel.job import WorkerContext
from polyrhythm.pieces.topology import Buckets
from polyrhythm.strategy.gradients import Parameters


class Overlap:
    """Begins the exchange of a bucket when all its parameters have their gradient, and those before it have begun.

    `check` is shown each value before it leaves. Hooks only hand values over: the simulator cannot let others run inside `backward()`.
    """

    def __init__(self, parameters: Parameters, buckets: Buckets, context: WorkerContext, check: Callable[[Tensor], None]) -> None:
        self.parameters = parameters
        self.buckets = buckets
        self.context = context
        self.check = check
        self.groups = _groups(parameters.parameters, [len(layout.names) for layout in buckets.layouts])
        self.group_of = {id(parameter): k for k, group in enumerate(self.groups) for parameter in group}
        self._hooks = [p.register_post_accumulate_grad_hook(self._arrive) for p in parameters.parameters]  # type: ignore[no-untyped-call]
        self._reset()

    def _reset(self) -> None:
        self._arrived: set[int] = set()
        self._missing = [len(group) for group in self.groups]
        self._elements = 0
        self._taken: list[tuple[nn.Parameter, Tensor | None, int]] = []
        self._begun = 0

    @property
    def under_way(self) -> bool:
        """Whether gradients have come since the last step."""
        return bool(self._arrived)

    def refuse_changes(self) -> None:
        """Raise WorkloadError if gradients that have left are not those that `optimizer.step()` finds."""
        if any(p.grad is not grad or (grad is not None and grad._version != version) for p, grad, version in self._taken):
            raise WorkloadError(
                "Gradients were changed between backward() and optimizer.step(), and Bucketed had exchanged them already: clip with "
                "attach(..., clip_norm=...), call zero_grad() before backward(), or take AllReduce without Bucketed."
            )

    def begin_rest(self) -> None:
        """Begin what has not begun: where a parameter got no gradient, its bucket and those after it still wait."""
        while self._begun < len(self.groups):
            self._begin(1.0)
        self._reset()

    def close(self) -> None:
        """Listen no more."""
        for hook in self._hooks:
            hook.remove()

    def _arrive(self, parameter: Tensor) -> None:
        if id(parameter) in self._arrived:
            raise WorkloadError(
                "A parameter got a gradient twice before optimizer.step(), and Bucketed exchanges gradients during backward(): add the "
                "losses up before one backward(), or take AllReduce without Bucketed, which exchanges them in step()."
            )
        self._arrived.add(id(parameter))
        self._missing[self.group_of[id(parameter)]] -= 1
        self._elements += parameter.numel()
        while self._begun < len(self.groups) and not self._missing[self._begun]:
            self._begin(self._elements / max(1, self.parameters.layout.numel))

    def _begin(self, done: float) -> None:
        group = self.groups[self._begun]
        value = self.parameters.gather(group)
        self.check(value)
        self._taken += [(p, p.grad, 0 if p.grad is None else p.grad._version) for p in group]
        self.context.begin(self.buckets.exchange_bucket(self._begun, value.cpu()), done)
        self._begun += 1


def _groups(parameters: list[nn.Parameter], sizes: list[int]) -> list[list[nn.Parameter]]:
    """The parameters of each bucket, the last ones first."""
    groups, end = [], len(parameters)
    for size in sizes:
        groups.append(parameters[end - size : end])
        end -= size
    return groups
