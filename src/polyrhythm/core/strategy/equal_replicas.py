"""Comparison of facts that must be equal at all workers while they train: at the first step, then less and less often, and at the end.

These are options of the optimizer, weights and states that were written by hand, parameters that are not trained, and weights where each
step leaves them equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.comparison import Comparison, Fact, Sketch, Times
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.watching.drift import processor, rounding
from polyrhythm.core.strategy.watching.written import keeps_writes, sampled_places, started_elsewhere
from polyrhythm.core.torch_private.one_process import NormBase, version

_LONGEST = 60
"""Characters of a value that a message shows."""
_SPREAD = 16
_OF_THE_MACHINE = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})
"""Keys of parameter groups that are no options of the training."""
_OF_THE_USER = frozenset({"lr", "momentum", "betas", "weight_decay", "dampening", "nesterov", "eps", "alpha", "lr_decay"})
"""Options that are compared at later steps too: others are written by optimizers themselves, from each worker's data."""
_RATES = "set options by what is equal everywhere, such as the number of steps or worker.mean(loss)."
_WRITE = "do at every worker what one of them does; load weights before worker.attach, which gives all of them those of worker 0."
_STATE = "load an optimizer's state at every worker, since worker.attach sends weights alone, and make it once the weights are there."
_BUFFERS = "write buffers at every worker, or before worker.attach, and run the model in evaluation mode where it only is looked at."


class EqualReplicas:
    """Compares one worker's `model` and `optimizer`, exchanged in `parts`, with those of the others; `number` is the model's.

    Workers are compared at the same place of the same data, so that a schedule by steps, batches or passes has come to the same rate.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, parts: list[Part], strategy: Strategy, number: int) -> None:
        self.model = model
        self.optimizer = optimizer
        self.parts = parts
        self._which = f" of model {number}" if number else ""
        self._alike = all(part.planned.part is None for part in parts)
        """True if workers that exchange hold the same parameters; else some of these are compared with some workers only."""
        self._own_rates = ControlledSetting.BATCH in strategy.shuffle.takes  # a worker with its own batch sizes has its own rates
        self._chooses = strategy.chooses
        self._rated = self._alike and not (self._own_rates or self._chooses)
        self._trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        self._counts: dict[str, int] | None = None
        self._written: tuple[str, ...] = ()
        self._initial_options: dict[str, str] = {}
        self._own: set[str] = set()
        self._before: dict[str, str] = {}
        self._rates = 0
        self._last: Any = None
        self._loads = 0
        self._hook = optimizer.register_load_state_dict_post_hook(self._loaded)
        self._next, self._ahead = 1, 1
        """The number of the step before which workers are compared next, and how many steps it is ahead; none where that is 0."""
        self._drawn, self._passes, self._data = 0, 0, 0

    def begin(self, clock: int) -> None:
        """Start after `clock` steps, of which workers may have taken different ones where the strategy chooses who takes part."""
        self._counts, self._loads = self._versions(), 0
        self._next = 1 << clock.bit_length()
        self._ahead = self._next - clock if clock == 0 or not self._chooses else 0

    def begin_among_others(self, clock: int) -> None:
        """Start after a change of the crew: workers have taken different numbers of steps, so that their rates so far are not compared."""
        self._rated = False
        self.begin(clock)

    def batch(self, samples: int, first: bool) -> None:
        """A batch of so many samples is drawn, the `first` of a pass or not. Before the first, no forward pass has written buffers."""
        self._drawn += 1
        if first:
            self._passes += 1
            self._data = crc32(f"{self._data} {samples}".encode())
        if self._counts is not None:
            self._initial_options = _options(self.optimizer)
            self._written = tuple(name for name, count in self._versions().items() if count != self._counts.get(name))
            self._counts = None

    def compares(self, clock: int) -> bool:
        """Compare, if it is time, at the start of the step `clock`; this worker takes all steps but those that it skips."""
        self._ahead -= 1
        if self._ahead:
            return False
        self._before = _options(self.optimizer)
        self._compare(f"step {self._next}", first=self._next == 1, beginning=clock == 1)
        self._ahead, self._next = self._next, 2 * self._next
        return True

    def compared(self) -> None:
        """The step is over: options that it has changed are the optimizer's own."""
        now = _options(self.optimizer)
        self._own |= {name for name, text in self._before.items() if now.get(name) != text}

    def note_rates(self, rates: Sequence[tuple[float, ...]]) -> None:
        """Note the learning rates of each part in the step that is over."""
        if rates != self._last and self._rated:
            self._last = rates
            self._rates = crc32(f"{self._rates} {rates}".encode())

    def end(self) -> None:
        """Compare for the last time: no more steps come."""
        self.close()
        if self._ahead > 0:
            self._compare(f"the end of training, after step {self._next - self._ahead},", ended=True)

    def close(self) -> None:
        """Compare no more."""
        self._hook.remove()

    def _compare(self, shown: str, first: bool = False, beginning: bool = False, ended: bool = False) -> None:
        found: dict[str, Fact | Sketch | Times] = {f"option {name}": Fact(text, _RATES) for name, text in self._options(first).items()}
        if "lr" not in self._own:
            found["rates until here"] = Fact(f"{self._rates:08x}", _RATES)
        found["states loaded into the optimizer"] = Fact(str(self._loads), _STATE)
        for number, part in enumerate(self.parts):
            writes = part.local.writes
            found[f"weights written by hand{_place(number, part)}"] = Times(writes.changes, writes.touches, writes.last, _WRITE)
        with torch.no_grad():
            found |= dict(self._tensors(first, beginning, ended))
        context = self.parts[0].context
        moment = f"{shown}{self._which} {self._drawn} {self._passes} {self._data}"
        context.free(lambda: context.compare(Comparison(moment, shown + self._which, found)))

    def _tensors(self, first: bool, beginning: bool, ended: bool) -> Iterator[tuple[str, Fact | Sketch]]:
        """The facts and samples of tensors. Final weights are compared when the run has ended, and made equal if rounding differs."""
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in self._trained and not parameter.requires_grad and parameter.numel() and not parameter.is_complex():
                yield f"frozen {name}", _sampled(parameter, _WRITE)
        for number, part in enumerate(self.parts):
            alike = (beginning and _begins_alike(part)) or (not (ended and self._alike) and _equal_after_steps(part))
            if alike and (weights := _weights(part)) is not None:
                yield f"weights{_place(number, part)}", weights
        if first and self._alike:
            yield from self._at_first()

    def _at_first(self) -> Iterator[tuple[str, Fact | Sketch]]:
        deferred = any(part.deferral is not None for part in self.parts)
        state = {} if deferred else _remembered(self.optimizer)
        yield "tensors in the optimizer's state", Fact(str(sum(map(len, state.values()))), _STATE)
        for name, tensors in state.items():
            yield f"state {name!r} of the optimizer", Sketch(_sums(tensors), rounding(torch.float32, 1), "", _STATE)
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        groups = [[names.get(id(each), "") for each in group["params"]] for group in self.optimizer.param_groups]
        yield "parameters in the optimizer's groups", Fact(f"{crc32(repr(groups).encode()):08x}", "give the optimizer the same groups.")
        yield "buffers written before the first batch", Fact(_short(", ".join(self._written)) or "none", _BUFFERS)
        for name, buffer in self.model.named_buffers():
            if name in self._written and buffer.numel() and not buffer.is_complex() and not _running(self.model, name):
                yield f"buffer {name}", _sampled(buffer, _BUFFERS)

    def _options(self, first: bool) -> dict[str, str]:
        """The options that must be equal. Where workers skip steps, schedules come to each step at other times."""
        if self._own_rates or (self._chooses and not first):
            return {}
        options = self._initial_options if self._chooses else _options(self.optimizer)
        return options if first else {name: text for name, text in options.items() if name in _OF_THE_USER - self._own}

    def _versions(self) -> dict[str, int]:
        return {name: version(buffer) for name, buffer in self.model.named_buffers() if not buffer.is_inference()}

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        self._loads += 1


def _begins_alike(part: Part) -> bool:
    """True if all take their first step on the weights of worker 0, and not on newer ones of a server or after deferred steps."""
    others_write = part.agreement.payload is Payload.NOTHING or started_elsewhere(part.agreement, part.planned.exchange.topology.traits)
    return part.deferral is None and not others_write


def _equal_after_steps(part: Part) -> bool:
    """True if all workers hold the same weights between any two steps, because all take the same ones."""
    return (
        part.agreement.payload.is_gradient
        and part.ends_alike
        and part.deferral is None
        and keeps_writes(part.agreement, part.planned.exchange.topology.traits)
    )


def _weights(part: Part) -> Sketch | None:
    """A sample of the part's weights; None where they are not finite, which the next exchange reports."""
    flat = part.local.parameters.flat.detach()
    values = flat[torch.from_numpy(sampled_places(part.local.parameters)).to(flat.device)].double()
    if not values.isfinite().all():
        return None
    return Sketch(tuple(values.tolist()), rounding(flat.dtype, max(part.local.clock, 1)), processor(flat.device), _WRITE)


def _sampled(tensor: Tensor, remedy: str) -> Sketch:
    """A sample of a tensor that no optimizer steps on."""
    flat = tensor.detach().reshape(-1)
    values = flat[:: max(1, len(flat) // _SPREAD)]
    return Sketch(tuple(values.double().tolist()), rounding(torch.float32, 1), "", remedy)


def _running(model: nn.Module, name: str) -> bool:
    """True if the buffer is a statistic of batches, which forward passes write."""
    return isinstance(model.get_submodule(name.rpartition(".")[0]), NormBase)


def _remembered(optimizer: torch.optim.Optimizer) -> dict[str, list[Tensor]]:
    """The tensors of the optimizer's state, by name, and those among its attributes that are shaped like parameters."""
    found: dict[str, list[Tensor]] = {}
    parameters = {id(parameter): parameter for group in optimizer.param_groups for parameter in group["params"]}
    shapes = {parameter.shape for parameter in parameters.values()}
    for state in optimizer.state.values():
        for name, value in state.items() if isinstance(state, Mapping) else ():
            found.setdefault(str(name), []).extend(_within(value))
    for name, value in vars(optimizer).items():
        if name not in ("state", "param_groups", "defaults"):
            own = [each for each in _within(value) if id(each) not in parameters and each.shape in shapes and each.dim()]
            if own:
                found[name] = own
    return {name: tensors for name, tensors in found.items() if tensors}


def _within(value: Any, depth: int = 2) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        return [value] if value.numel() and not value.is_complex() else []
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(float(value))]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth:
        return [tensor for item in value for tensor in _within(item, depth - 1)]
    return []


def _sums(tensors: list[Tensor]) -> tuple[float, ...]:
    """The sum and the norm of each tensor."""
    wide = [tensor.detach().double() for tensor in tensors]
    return tuple(float(value) for tensor in wide for value in (tensor.sum(), tensor.norm()))


def _options(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """The options of all groups that are numbers or text, each as one text."""
    found: dict[str, list[str]] = {}
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name not in _OF_THE_MACHINE and (text := _plain(value)) is not None:
                found.setdefault(name, []).append(text)
    return {name: values[0] if len(set(values)) == 1 else _short(", ".join(values)) for name, values in found.items()}


def _plain(value: Any) -> str | None:
    if isinstance(value, Tensor):
        return _plain(value.item()) if value.numel() == 1 else None
    if isinstance(value, (tuple, list)):
        texts = [_plain(item) for item in value]
        return None if None in texts else f"({', '.join(map(str, texts))})"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if value is None or isinstance(value, (bool, int, str)) else None


def _short(text: str) -> str:
    """The text, or its start and a checksum of the whole."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({crc32(text.encode()):08x})"


def _place(number: int, part: Part) -> str:
    if part.planned.part is not None:
        return f" of {part.scope.removesuffix('/')}"
    return f" of exchange {number}" if number else ""
