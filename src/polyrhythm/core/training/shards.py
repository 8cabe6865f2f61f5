"""Models whose parameters are sharded over ranks (FSDP2, tensor parallelism): each worker exchanges the shards that it has.

`Worker.attach` makes a `ShardModel` of such a model, and attaches that in its place. The optimizer of the model takes the steps, on its
DTensors; weights and gradients go from the local shards to plain parameters, which are exchanged, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.torch_private.one_process import mark_wrapped_by_scheduler, wraps_tensors
from polyrhythm.core.training.models import Models
from polyrhythm.errors import CompositionError


def is_sharded(model: nn.Module) -> bool:
    """True if a parameter is a DTensor."""
    return any(wraps_tensors(type(parameter)) for parameter in model.parameters())


class ShardModel(nn.Module):
    """The local shards of the parameters of `model`, by their names, with "/" for "."."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.whole = dict(model.named_parameters())
        for name, parameter in self.whole.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(_local(parameter).clone(), parameter.requires_grad))

    def take(self) -> None:
        """Take the weights and gradients of the model."""
        for shard, whole in zip(self.parameters(), self.whole.values(), strict=True):
            shard.data.copy_(_local(whole))
            shard.grad = None if whole.grad is None else _local(whole.grad)

    def give_gradients(self) -> None:
        """Give the model the gradients of the shards, which were merged with those of others."""
        for shard, whole in zip(self.parameters(), self.whole.values(), strict=True):
            if whole.grad is not None and shard.grad is not None and (own := _local(whole.grad)).data_ptr() != shard.grad.data_ptr():
                own.copy_(shard.grad)

    def give(self) -> None:
        """Give the model the weights of the shards."""
        for shard, whole in zip(self.parameters(), self.whole.values(), strict=True):
            _local(whole).copy_(shard.detach())


class ShardOptimizer(Optimizer):
    """The optimizer of a `ShardModel`: its step is that of the model's optimizer, `whole`, whose options it has."""

    def __init__(self, model: ShardModel, whole: Optimizer) -> None:
        shards = dict(zip(map(id, model.whole.values()), model.parameters(), strict=True))
        try:
            groups = [{**group, "params": [shards[id(each)] for each in group["params"]]} for group in whole.param_groups]
        except KeyError:
            raise CompositionError(
                f"{type(whole).__name__} has parameters that the model has not: make the optimizer after the model was sharded."
            ) from None
        super().__init__(groups, dict(whole.defaults))
        self._model = model
        self._whole = whole
        self._step = whole.step

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take a step of the model's optimizer, on the gradients of the shards."""
        self._model.give_gradients()
        self._give_state()
        with self._lent():
            self._step()
        for shard, whole in zip(self._model.parameters(), self._model.whole.values(), strict=True):
            shard.data.copy_(_local(whole))
            if kept := self._whole.state.get(whole):
                self.state[shard] = {name: _local(value) if isinstance(value, Tensor) else value for name, value in kept.items()}

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """Let the model's optimizer have the present options, and gradients of the present parameters alone: a rule may step on a part."""
        wanted = {id(each) for group in self.param_groups for each in group["params"]}
        pairs = list(zip(self._model.parameters(), self._model.whole.values(), strict=True))
        put_off = [(whole, whole.grad) for shard, whole in pairs if id(shard) not in wanted]
        before = [dict(group) for group in self._whole.param_groups]
        for whole, _ in put_off:
            whole.grad = None
        for own, group in zip(self.param_groups, self._whole.param_groups, strict=True):
            group.update({name: value for name, value in own.items() if name != "params"})
        try:
            yield
        finally:
            for group, then in zip(self._whole.param_groups, before, strict=True):
                group.update(then)
            for whole, gradient in put_off:
                whole.grad = gradient

    def _give_state(self) -> None:
        """Give the model's optimizer its state back, which a local rule may have reset or averaged."""
        for shard, whole in zip(self._model.parameters(), self._model.whole.values(), strict=True):
            kept, own = self.state.get(shard, {}), self._whole.state.get(whole, {})
            for name in own.keys() - kept.keys():
                del own[name]
            for name, value in kept.items():
                if isinstance(value, Tensor) and isinstance(own.get(name), Tensor):
                    _local(own[name]).copy_(value)
                elif name in own:
                    own[name] = value

    def follow(self) -> None:
        """Take the present options of the model's optimizer, such as a learning rate that was scheduled."""
        for own, whole in zip(self.param_groups, self._whole.param_groups, strict=True):
            own.update({name: value for name, value in whole.items() if name != "params"})


def exchanged_by(optimizer: Optimizer, shards: ShardModel, inner: ShardOptimizer) -> None:
    """Make the step of the model's `optimizer` that of `inner`, which was attached and exchanges, on the model's weights and gradients."""

    @torch.no_grad()
    def step(closure: Any = None) -> None:
        if closure is not None:
            raise CompositionError("The optimizer of a sharded model was given a closure: compute the loss before optimizer.step().")
        shards.take()
        inner.follow()
        inner.step()
        shards.give()

    shards.give()
    mark_wrapped_by_scheduler(step)
    optimizer.step = step  # type: ignore[method-assign, assignment]


def attach_whole(
    models: Models, model: nn.Module, optimizer: Optimizer, clip_norm: float | None, name: str | None, step: Callable[[Replica], None]
) -> None:
    """Attach `model` to `models`; in the place of one that is sharded, the shards of this rank."""
    if not is_sharded(model):
        models.attach(model, optimizer, clip_norm, name, step)
        return
    if clip_norm is not None:
        raise CompositionError(
            "clip_norm of a sharded model would clip by the norm of one rank's shards: leave it out, and call "
            "torch.nn.utils.clip_grad_norm_(model.parameters(), norm) before optimizer.step(), which knows shards."
        )
    shards = ShardModel(model)
    inner = ShardOptimizer(shards, optimizer)
    models.attach(shards, inner, clip_norm, name, step)
    exchanged_by(optimizer, shards, inner)
    models.finished.append(shards.give)


def _local(tensor: Tensor) -> Tensor:
    """The local shard of a DTensor, in its own memory; another tensor itself, without its graph."""
    own: Any = tensor.detach()
    local: Tensor = own.to_local() if wraps_tensors(type(own)) else own
    return local
