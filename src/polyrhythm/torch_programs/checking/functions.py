"""Functions of torch that are watched while the ranks of a check run: losses, dropout, clipping, and what reads a DTensor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader

from polyrhythm.core.torch_private.one_process import backward_pass
from polyrhythm.process_group.messages.calls import line_of_caller, line_of_direct_caller
from polyrhythm.torch_programs.checking.claims import claim_of
from polyrhythm.torch_programs.checking.seen import Clip, DropoutCall, digest, kept, local
from polyrhythm.torch_programs.checking.watch import RankWatch, RankWatches

_LOSSES = (
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
)
Function = Callable[..., Any]


@contextmanager
def functions_watched(watches: RankWatches, dropout: bool = True, times: int = 1) -> Iterator[None]:
    """RankWatch them for the time of a run: without `dropout` masks are drawn and not applied; loaders have batches `times` as large."""
    stage = next(each for each in PipelineStage.__mro__ if "scale_grads" in vars(each))
    with ExitStack() as undo:

        def put(where: Any, name: str, made: Callable[[Function, RankWatches], Function]) -> None:
            before = vars(where)[name]
            function = before.__func__ if isinstance(before, staticmethod) else before
            new = wraps(function)(made(function, watches))
            setattr(where, name, staticmethod(new) if isinstance(before, staticmethod) else new)
            undo.callback(setattr, where, name, before)

        for name in _LOSSES:
            put(F, name, _loss)
        put(F, "dropout", _dropout if dropout else _drawn_only)
        put(F, "scaled_dot_product_attention", _attention if dropout else _attention_alone)
        put(torch.nn.utils, "clip_grad_norm_", _clip)
        put(sys.modules["torch.nn.utils.clip_grad"], "clip_grad_norm_", _clip)
        put(Tensor, "backward", _backward)
        put(DTensor, "from_local", _from_local)
        put(DTensor, "to_local", _to_local)
        put(stage, "scale_grads", _scaling)
        if times > 1:
            put(DataLoader, "__init__", _larger(times))
        yield


def _loss(function: Function, watches: RankWatches) -> Function:
    def call(given: Any, target: Any, *others: Any, **options: Any) -> Any:
        result = function(given, target, *others, **options)
        watch = watches.here()
        if watch is not None and _trains() and isinstance(result, Tensor):
            with torch.no_grad():
                watch.seen.now.targets.append(kept(target))
                watch.seen.now.losses += _number(result)
        return result

    return call


def _dropout(function: Function, watches: RankWatches) -> Function:
    def call(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        watch = watches.here()
        if watch is None or not training or not 0 < p < 1 or not _trains():
            return function(input, p, training, inplace)  # type: ignore[no-any-return]
        watch.seen.draws = True
        given, there = digest(input), local(input) != 0
        result: Tensor = function(input, p, training, inplace)
        with torch.no_grad():
            watch.seen.now.drops.append(DropoutCall(watch.module, given, there, (local(result) == 0) & there, line_of_caller()))
        return result

    return call


def _drawn_only(function: Function, watches: RankWatches) -> Function:
    def call(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        result: Tensor = function(input, p, training, inplace and watches.here() is None)
        return result if watches.here() is None else input

    return call


def _attention(function: Function, watches: RankWatches) -> Function:
    def call(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *others: Any, **options: Any) -> Any:
        if (watch := watches.here()) is not None and dropout_p > 0:
            watch.seen.draws = True
        return function(query, key, value, attn_mask, dropout_p, *others, **options)

    return call


def _attention_alone(function: Function, watches: RankWatches) -> Function:
    def call(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *others: Any, **options: Any) -> Any:
        return function(query, key, value, attn_mask, dropout_p if watches.here() is None else 0.0, *others, **options)

    return call


def _clip(function: Function, watches: RankWatches) -> Function:
    def call(parameters: Any, max_norm: float, *others: Any, **options: Any) -> Any:
        each = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        watch = watches.here()
        before = {id(parameter): kept(parameter.grad) for parameter in each if watch is not None and parameter.grad is not None}
        norm = function(each, max_norm, *others, **options)
        if watch is not None and _of_two(others, options) and (number := _number(norm)):
            watch.seen.now.clips.append(Clip(number[0], float(max_norm), _by_name(before, watch, each), line_of_caller()))
        return norm

    return call


def _by_name(before: dict[int, Tensor], watch: RankWatch, parameters: list[Tensor]) -> dict[str, Tensor]:
    return {watch.name_of(each): before[id(each)] for each in parameters if id(each) in before}


def _of_two(others: tuple[Any, ...], options: dict[str, Any]) -> bool:
    return float((*others, options.get("norm_type", 2.0))[0]) == 2.0


def _backward(function: Function, watches: RankWatches) -> Function:
    def call(self: Tensor, *others: Any, **options: Any) -> Any:
        if (watch := watches.here()) is not None:
            watch.seen.now.backwards += _number(self)
        return function(self, *others, **options)

    return call


def _from_local(function: Function, watches: RankWatches) -> Function:
    def call(*given: Any, **options: Any) -> Any:
        result = function(*given, **options)
        watch = watches.here()
        if watch is not None and (where := line_of_direct_caller()):
            with torch.no_grad():
                claim = claim_of(result, f"DTensor.from_local at {where}")
            watch.seen.claims += [] if claim is None else [claim]
        return result

    return call


def _to_local(function: Function, watches: RankWatches) -> Function:
    def call(self: DTensor, *given: Any, **options: Any) -> Any:
        watch = watches.here()
        if watch is not None and any(each.is_partial() for each in self.placements) and (where := line_of_direct_caller()):
            watch.seen.partials.append(where)
        return function(self, *given, **options)

    return call


def _scaling(function: Function, watches: RankWatches) -> Function:
    def call(self: Any, factor: int) -> None:
        if (watch := watches.here()) is not None and factor != 1:
            watch.seen.now.scalings.append((id(self), line_of_caller()))
        function(self, factor)

    return call


def _larger(times: int) -> Callable[[Function, RankWatches], Function]:
    def made(function: Function, watches: RankWatches) -> Function:
        def call(self: Any, dataset: Any, batch_size: int | None = 1, *others: Any, **options: Any) -> None:
            function(self, dataset, batch_size and batch_size * times, *others, **options)

        return call

    return made


def _trains() -> bool:
    """True in a forward pass of training: not in an evaluation, and not where a backward pass repeats one."""
    return torch.is_grad_enabled() and backward_pass() < 0


def _number(tensor: Any) -> list[float]:
    """The value of a tensor of one element that this rank knows; [] for others."""
    if not isinstance(tensor, Tensor) or tensor.numel() != 1:
        return []
    if isinstance(tensor, DTensor) and not all(each.is_replicate() for each in tensor.placements):
        return []
    return [float(local(tensor))]
