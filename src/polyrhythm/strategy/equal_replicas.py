"""What must be equal at all workers while they train: options, weights written by hand, and weights where each step leaves them equal.

Compared at the first step, then at rarer and rarer ones, and at the end, so that what one worker does alone is named early.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

from polyrhythm.kernel.comparison import Comparison, Sketch
from polyrhythm.pieces.controller import ControlledSetting
from polyrhythm.pieces.traits import Pattern
from polyrhythm.strategy.drift import processor, rounding
from polyrhythm.strategy.part import Part
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.strategy.written import keeps_writes, sampled_places

_LONGEST = 60
"""Characters of a value that are shown."""
_REMEDY = (
    "do at every worker what one of them does; load weights before worker.attach, which gives all of them those of worker 0, and an "
    "optimizer's state at all; set learning rates by what is equal everywhere, such as worker.mean(loss)."
)


class EqualReplicas:
    """Compares one worker's `model` and `optimizer`, exchanged in `parts`, with those of the others. `number`: which model it is."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, parts: list[Part], strategy: Strategy, number: int) -> None:
        self.optimizer = optimizer
        self.parts = parts
        self._which = f" of model {number}" if number else ""
        self._own_rates = ControlledSetting.BATCH in strategy.shuffle.takes  # with batches of its own a worker has rates of its own
        self._shared = strategy.shares_memory
        self._buffers = dict(model.named_buffers())
        self._counts: dict[str, int] | None = None
        self._written: tuple[str, ...] = ()
        self._begun_with: dict[str, str] = {}
        self._chooses = strategy.chooses
        self._taken: int | None = 0
        self._due = 1

    def begin(self, clock: int) -> None:
        """All begin with the same, after `clock` steps, of which each may have taken others where a strategy chooses who does."""
        self._counts = self._versions()
        self._taken = clock if clock == 0 or not self._chooses else None
        while self._due <= clock:
            self._due *= 2

    def batch(self) -> None:
        """A first batch is drawn: what has written buffers until now was no forward pass."""
        if self._counts is not None:
            self._begun_with = _options(self.optimizer)
            self._written = tuple(name for name, count in self._versions().items() if count != self._counts[name])
            self._counts = None

    def step(self, clock: int) -> None:
        """The step `clock` begins, of which this worker takes all but those that it passes over."""
        if self._taken is None:
            return
        self._taken += 1
        if self._taken == self._due:
            self._due *= 2
            self._compare(f"step {self._taken}{self._which}", first=self._taken == 1, beginning=clock == 1)

    def end(self) -> None:
        """There are no more steps."""
        if self._taken is not None:
            self._compare(f"the end of training, after step {self._taken}{self._which},")

    def _compare(self, moment: str, first: bool = False, beginning: bool = False) -> None:
        facts = {f"option {name}": text for name, text in self._options(first).items()}
        for number, part in enumerate(self.parts):
            facts[f"weights written by hand{_place(number)}"] = part.writes.times
        sketches = {}
        if first:
            found = _remembered(self.optimizer)
            facts["tensors in the optimizer's state"] = str(sum(map(len, found.values())))
            facts["buffers written before the first batch"] = _short(", ".join(self._written)) or "none"
            sketches = {f"state {name!r} of the optimizer": _sums(tensors) for name, tensors in found.items()}
        with torch.no_grad():
            for number, part in enumerate(self.parts):
                if (beginning and not self._shared) or _equal_after_steps(part):
                    sketches[f"weights{_place(number)}"] = _weights(part)
        context = self.parts[0].context
        context.free(lambda: context.compare(Comparison(moment, facts, sketches, _REMEDY)))

    def _options(self, first: bool) -> dict[str, str]:
        """Those that must be equal. Where workers pass steps over, schedules come to each step at other times."""
        if self._own_rates or (self._chooses and not first):
            return {}
        return self._begun_with if self._chooses else _options(self.optimizer)

    def _versions(self) -> dict[str, int]:
        return {name: buffer._version for name, buffer in self._buffers.items()}


def _equal_after_steps(part: Part) -> bool:
    """Whether all workers hold the same weights between any two steps, because all take the same ones."""
    together = part.agreement.payload.is_gradient and part.ends_alike and part.pattern is not Pattern.SERVED
    return together and not part.awaits and keeps_writes(part.agreement, part.planned.exchange.topology.traits)


def _weights(part: Part) -> Sketch:
    flat = part.parameters.flat.detach()
    values = flat[torch.from_numpy(sampled_places(part.parameters)).to(flat.device)]
    return Sketch(tuple(values.double().tolist()), rounding(flat.dtype, max(part.clock, 1)), processor(flat.device))


def _remembered(optimizer: torch.optim.Optimizer) -> dict[str, list[Tensor]]:
    """The tensors that the optimizer remembers, by their names, and those that are its attributes, but for parameters."""
    found: dict[str, list[Tensor]] = {}
    parameters = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for held in (*optimizer.state.values(), vars(optimizer)):
        for name, value in held.items() if isinstance(held, Mapping) else ():
            if tensors := [each for each in _tensors(value) if id(each) not in parameters]:
                found.setdefault(str(name), []).extend(tensors)
    return found


def _sums(tensors: list[Tensor]) -> Sketch:
    return Sketch(tuple(float(tensor.detach().double().sum()) for tensor in tensors), rounding(torch.float32, 1), "")


def _tensors(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        return [value] if value.numel() and not value.is_complex() else []
    return [each for each in value if isinstance(each, Tensor) and each.numel()] if isinstance(value, (list, tuple)) else []


def _options(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """The options of all groups that are numbers or text, each as one text."""
    found: dict[str, list[str]] = {}
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name != "params" and (text := _plain(value)) is not None:
                found.setdefault(name, []).append(text)
    return {name: values[0] if len(set(values)) == 1 else _short(", ".join(values)) for name, values in found.items()}


def _plain(value: Any) -> str | None:
    if isinstance(value, Tensor):
        return str(value.item()) if value.numel() == 1 else None
    if isinstance(value, (tuple, list)):
        texts = [_plain(item) for item in value]
        return None if None in texts else f"({', '.join(map(str, texts))})"
    return str(value) if value is None or isinstance(value, (bool, int, float, str)) else None


def _short(text: str) -> str:
    """The text, or its beginning and a sum of it all."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({crc32(text.encode()):08x})"


def _place(number: int) -> str:
    return f" of exchange {number}" if number else ""
