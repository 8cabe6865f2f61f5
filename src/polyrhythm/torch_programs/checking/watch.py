"""Hooks that see the models and optimizers of all ranks of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from polyrhythm.core.torch_private.distributed import communication_hooks, sharding_of
from polyrhythm.core.torch_private.one_process import backward_pass, remove_hook
from polyrhythm.process_group.messages.calls import line_of_caller
from polyrhythm.torch_programs.checking.claims import claim_of
from polyrhythm.torch_programs.checking.seen import GradientSum, HeldParameter, RankSeen, Sight, StepSeen, index_of, kept, whole_shape
from polyrhythm.torch_programs.ranks import current

_WRAPPERS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class EnoughSeen(SystemExit):
    """Ends a rank that has taken the steps that are looked at."""


def plain_name(name: str) -> str:
    """The name without those of wrappers such as DistributedDataParallel."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


class RankWatch:
    """Sees one rank: the models that it calls and its optimizers, until it has taken `wanted` steps. With `noise` the last bits
    of gradients are changed by chance, to see what rounding does."""

    def __init__(self, seen: RankSeen, wanted: int, noise: bool) -> None:
        self.seen = seen
        self._noise = noise
        self._wanted = wanted
        self._depth: list[nn.Module] = []
        self._roots: dict[int, nn.Module] = {}
        self._names: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        self._taken: dict[int, int] = defaultdict(int)
        self._calls: dict[str, int] = defaultdict(int)
        self._hooked: set[int] = set()
        self._pending: dict[str, GradientSum] = {}

    @property
    def module(self) -> str:
        """The name of the module that is being called."""
        return self._modules.get(id(self._depth[-1]), type(self._depth[-1]).__name__) if self._depth else ""

    def called(self, module: nn.Module) -> None:
        """A module is called."""
        if not self._depth and backward_pass() < 0 and any(True for _ in module.parameters()):
            if self._taken and min(self._taken.values()) >= self._wanted:
                self.seen.enough = True
                raise EnoughSeen
            self._know(module)
        self._depth.append(module)

    def returned(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Any, trains: bool) -> None:
        """It has returned, or raised."""
        while self._depth and self._depth.pop() is not module:
            pass
        if not self._depth and trains and id(module) in self._roots:
            inputs = [each for each in (*given, *named.values()) if isinstance(each, Tensor)]
            self.seen.now.inputs += [kept(each) for each in inputs[:1] if not each.requires_grad]
        for each in result if isinstance(result, tuple | list) else (result,):
            name = self._modules.get(id(module), type(module).__name__)
            if isinstance(each, Tensor) and each.dtype.is_floating_point:
                self.seen.computed.add(each.dtype)
            if isinstance(each, Tensor) and (claim := claim_of(each, f"the output of {name}", isinstance(module, _CONVOLUTIONS))):
                self.seen.claims.append(claim)

    def before_step(self, optimizer: Optimizer) -> None:
        """The optimizer is about to take a step: note its gradients."""
        if self._taken[id(optimizer)] >= self._wanted:
            self.seen.enough = True
            raise EnoughSeen
        step = self._step(self._taken[id(optimizer)])
        step.where = line_of_caller()
        for parameter in _parameters(optimizer):
            name = self._names.get(id(parameter))
            if name is None:
                continue
            if parameter.grad is not None:
                step.gradients[name] = kept(_placed(parameter.grad, parameter))
                if self._noise and parameter.grad.layout == torch.strided:
                    _shake(parameter.grad)
            if name in self._pending:
                step.contributions[name] = self._pending.pop(name)

    def after_step(self, optimizer: Optimizer) -> None:
        """It has taken it: note its parameters."""
        for pending in self._pending.values():
            pending.closed = True
        number = self._taken[id(optimizer)]
        self._taken[id(optimizer)] += 1
        step = self._step(number)
        for parameter in _parameters(optimizer):
            if (name := self._names.get(id(parameter))) is not None:
                step.values[name] = kept(parameter)
        if number == len(self.seen.steps):
            self.seen.steps.append(step)
            self.seen.now = StepSeen()

    def name_of(self, parameter: Tensor) -> str:
        """Its name; "" for one of no model that was called."""
        return self._names.get(id(parameter), "")

    def _step(self, number: int) -> StepSeen:
        return self.seen.steps[number] if number < len(self.seen.steps) else self.seen.now

    def _know(self, root: nn.Module) -> None:
        """Note the parameters of a model, and hear of their gradients."""
        if id(root) not in self._roots:
            self._roots[id(root)] = root
            prefix = f"{len(self._roots)}/" if len(self._roots) > 1 else ""
            for name, module in root.named_modules():
                self._modules.setdefault(id(module), plain_name(f"{prefix}{name}." if name else prefix).rstrip(".") or type(root).__name__)
                self._note(module, plain_name(f"{prefix}{name}." if name else prefix))
        for parameter in root.parameters():
            if parameter.requires_grad and id(parameter) not in self._hooked and not isinstance(parameter, DTensor):
                self._hooked.add(id(parameter))
                parameter.register_hook(partial(self._contributed, self._names[id(parameter)]))  # type: ignore[no-untyped-call]

    def _note(self, module: nn.Module, prefix: str) -> None:
        self.seen.hooks.update(communication_hooks(module))
        requested, data = sharding_of(module)
        self.seen.requested |= requested
        for name, parameter in module.named_parameters(recurse=False):
            full, first = prefix + name, self._names.get(id(parameter))
            self._names.setdefault(id(parameter), full)
            index, kind = index_of(parameter), type(module).__name__
            shape = tuple(parameter.shape) if index is None else whole_shape(parameter)
            held = HeldParameter(full, kind, shape, kept(parameter), index, parameter.requires_grad, first or full, data)
            self.seen.parameters.setdefault(full, held)

    def _contributed(self, name: str, grad: Tensor | None) -> None:
        if grad is None:  # of a function of its own that leaves a gradient for later, as pipelines with split backward passes do
            return
        if (known := self._pending.get(name)) is None or known.closed:
            self._pending[name] = GradientSum(kept(grad), kept(grad))
        else:
            known.total, known.last, known.count = known.total + kept(grad), kept(grad), known.count + 1


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _placed(gradient: Tensor, parameter: Tensor) -> Tensor:
    """A DTensor's gradient as its parameter lies, which the optimizer makes of it."""
    if isinstance(gradient, DTensor) and isinstance(parameter, DTensor) and gradient.placements != parameter.placements:
        return gradient.redistribute(placements=parameter.placements)
    return gradient


def _shake(gradient: Tensor) -> None:
    """Change the last bits, by a random stream that the script does not draw from."""
    values = gradient.to_local() if isinstance(gradient, DTensor) else gradient
    with torch.no_grad():
        noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(values.numel()))
        values.mul_((1 + torch.finfo(values.dtype).eps * noise).to(values.dtype))


class RankWatches:
    """Those of all ranks."""

    def __init__(self, sight: Sight, wanted: int, noise: bool = False) -> None:
        self.sight = sight
        self._noise = noise
        self._wanted = wanted
        self._of: dict[int, RankWatch] = {}

    def here(self) -> RankWatch | None:
        """That of the rank which calls; None in other threads."""
        rank = current()
        if rank is None:
            return None
        if rank.rank not in self._of:
            seen = self.sight.ranks[rank.rank] = RankSeen(rank.rank)
            self._of[rank.rank] = RankWatch(seen, self._wanted, self._noise)
        return self._of[rank.rank]


@contextmanager
def models_watched(watches: RankWatches) -> Iterator[None]:
    """RankWatch models and optimizers for the time of a run."""

    def called(module: nn.Module, given: Any) -> None:
        if (watch := watches.here()) is not None:
            watch.called(module)

    def returned(module: nn.Module, given: Any, named: Any, result: Any) -> None:
        if (watch := watches.here()) is not None:
            trains = torch.is_grad_enabled() and backward_pass() < 0
            with torch.no_grad():
                watch.returned(module, given, named, result, trains)

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if (watch := watches.here()) is not None:
            watch.before_step(optimizer)

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if (watch := watches.here()) is not None:
            watch.after_step(optimizer)

    with ExitStack() as undo:
        for handle in (
            register_module_forward_pre_hook(called),
            register_module_forward_hook(returned, with_kwargs=True, always_call=True),
            register_optimizer_step_pre_hook(before),
            register_optimizer_step_post_hook(after),
        ):
            undo.callback(remove_hook, handle)
        yield
