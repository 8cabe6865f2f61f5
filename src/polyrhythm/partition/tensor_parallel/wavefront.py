"""Recurrent layers divided among ranks, each of which is at another time of the sequence: a wavefront over layers and times.

A cell needs the layer below at the same time, and its own layer at the time before. So the cells of a diagonal are computed at once, and L
layers at L ranks take L + T - 1 cells for T times (Appleyard et al., 2016, section 3.4; Ben-Nun & Hoefler, 2019, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from polyrhythm.partition.autocast import autocast_dtype, without_autocast
from polyrhythm.partition.axis import Axis, near_equal, starts
from polyrhythm.partition.moves import gather, shard
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place

State = tuple[Tensor, ...]
"""What a layer remembers, (samples, width) each: one tensor, or two for an LSTM."""
Cell = Callable[[Tensor, State, Sequence[Tensor]], State]


def _simple(function: Callable[..., Tensor]) -> Cell:
    return lambda value, state, weights: (function(value, state[0], *weights),)


CELLS: dict[str, Cell] = {
    "RNN_TANH": _simple(torch.rnn_tanh_cell),
    "RNN_RELU": _simple(torch.rnn_relu_cell),
    "GRU": _simple(torch.gru_cell),
    "LSTM": lambda value, state, weights: torch.lstm_cell(value, state, *weights),
}
"""The next state of a layer, by the mode of torch's module: its first tensor is the output."""


@dataclass(frozen=True, slots=True)
class Wavefront:
    """Divide the layers of an `nn.RNN`, `nn.GRU` or `nn.LSTM` over `axis`, in shares by `weights`, by default equal.

    Parameters of layers that other ranks have are empty.
    """

    axis: str = "layers"
    weights: tuple[float, ...] | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.RNNBase):
            return f"Wavefront divides nn.RNN, nn.GRU and nn.LSTM, and this is {type(module).__name__}: name such a module."
        if module.bidirectional:
            return "A bidirectional layer needs the last time first, so its layers cannot be at different times: use one direction."
        if module.proj_size or (module.dropout and module.num_layers > 1):
            return "Layers with proj_size, or with dropout between them, cannot be divided so: leave these options out."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.RNNBase)
        axis = place.axis(self.axis)
        sizes = near_equal(module.num_layers, axis.size, self.weights)
        first = starts(sizes)[axis.index]
        local = WavefrontLayers(module, axis, sizes)
        for layer in range(module.num_layers):
            for own, parameter in module.named_parameters():
                if own.endswith(f"_l{layer}"):
                    whole = Piece.all_of(parameter.shape)
                    piece = whole if first <= layer < first + sizes[axis.index] else whole.on(0)
                    local.register_parameter(own, place.parameter(parameter, f"{name}.{own}".lstrip("."), piece, self.axis))
        return local


class WavefrontLayers(nn.Module):
    """Some layers of a recurrent module: takes and gives what the whole one does, equal at all ranks."""

    def __init__(self, whole: nn.RNNBase, axis: Axis, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size = whole.mode, whole.input_size, whole.hidden_size
        self.num_layers, self.batch_first, self.bias = whole.num_layers, whole.batch_first, whole.bias
        self._axis, self._sizes = axis, sizes

    def forward(self, value: Tensor, state: Tensor | tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Any]:
        if not isinstance(value, Tensor) or value.dim() != 3:
            raise ValueError("Layers that are divided over times take a tensor (times, samples, features): pad sequences, and batch them.")
        times = value.transpose(0, 1) if self.batch_first else value
        if autocast_dtype(value) is not None:
            times = times.to(next(self.parameters()).dtype)
        begun = self._begun(times, state)
        names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ()))
        first = starts(self._sizes)[self._axis.index]
        layers = range(first, first + self._sizes[self._axis.index])
        weights = [getattr(self, f"{name}_l{layer}") for layer in layers for name in names]
        features = self.hidden_size if first else self.input_size
        wave = _Wave(self._axis, CELLS[self.mode], len(layers), len(names), features, self.hidden_size)
        with without_autocast(value):
            outputs, *ended = _Times.apply(wave, times.contiguous(), len(begun), *begun, *weights)  # type: ignore[no-untyped-call]
        whole = [gather(each, self._axis, 0, self._sizes) for each in ended]
        return (outputs.transpose(0, 1) if self.batch_first else outputs), (tuple(whole) if len(whole) > 1 else whole[0])

    def _begun(self, times: Tensor, state: Tensor | tuple[Tensor, Tensor] | None) -> list[Tensor]:
        """The first state of this rank's layers, (layers, samples, width) each."""
        if state is None:
            own = (self._sizes[self._axis.index], times.shape[1], self.hidden_size)
            return [times.new_zeros(own) for _ in range(2 if self.mode == "LSTM" else 1)]
        return [shard(each, self._axis, 0, self._sizes) for each in ((state,) if isinstance(state, Tensor) else state)]


class _Wave(NamedTuple):
    """This rank's place in a wavefront: its layers, how many weights each has, the features that it is given, and those of an output."""

    axis: Axis
    cell: Cell
    layers: int
    names: int
    features: int
    width: int

    @property
    def is_first(self) -> bool:
        return self.axis.index == 0

    @property
    def is_last(self) -> bool:
        return self.axis.index == self.axis.size - 1

    def step(self, value: Tensor, states: list[State], weights: Sequence[Tensor]) -> tuple[Tensor, list[State]]:
        """The output of the last of these layers at one time, and the states of all."""
        found = []
        for layer, state in enumerate(states):
            found.append(self.cell(value, state, weights[layer * self.names : (layer + 1) * self.names]))
            value = found[-1][0]
        return value, found

    def receive(self, by: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        source = self.axis.index + by
        return self.axis.exchange({}, {source: shape}, like)[source]

    def send(self, value: Tensor, by: int) -> None:
        self.axis.exchange({self.axis.index + by: value}, {}, value)


class _Moment(NamedTuple):
    """One time: what the layers were given, and what they made of it."""

    given: list[Tensor]
    made: list[Tensor]


class _Times(Function):
    """All times of this rank's layers; the outputs of the last rank, at all ranks, and the last states of this one."""

    @staticmethod
    def forward(ctx: Any, wave: _Wave, times: Tensor, states: int, *rest: Tensor) -> Any:
        begun, weights = rest[:states], [weight.detach().requires_grad_(weight.requires_grad) for weight in rest[states:]]
        now: list[State] = [tuple(each[layer] for each in begun) for layer in range(wave.layers)]
        moments, outputs = [], []
        for own in times:
            value = own if wave.is_first else wave.receive(-1, (times.shape[1], wave.features), times)
            given = [each.detach().requires_grad_() for each in (value, *(each for state in now for each in state))]
            with torch.enable_grad():
                found, now = wave.step(given[0], _by_layer(given[1:], states), weights)
            if not wave.is_last:
                wave.send(found.detach(), 1)
            moments.append(_Moment(given, [found, *(each for state in now for each in state)]))
            outputs.append(found.detach())
        ended = [torch.stack([state[k].detach() for state in now]) if now else begun[k].clone() for k in range(states)]
        ctx.wave, ctx.moments, ctx.weights, ctx.states, ctx.like = wave, moments, weights, states, torch.empty_like(times)
        last = torch.stack(outputs) if wave.is_last else times.new_empty(*times.shape[:2], wave.width)
        return wave.axis.broadcast(last, wave.axis.size - 1), *ended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor, *of_ended: Tensor) -> Any:
        wave, states = ctx.wave, ctx.states
        totals = [torch.zeros_like(weight) if weight.requires_grad else None for weight in ctx.weights]
        wanted = [weight for weight in ctx.weights if weight.requires_grad]
        slopes = [each[layer] for layer in range(wave.layers) for each in of_ended]
        of_times = []
        for at in reversed(range(len(ctx.moments))):
            given, made = ctx.moments.pop()
            of_found = of_outputs[at] if wave.is_last else wave.receive(1, tuple(made[0].shape), of_outputs)
            found = torch.autograd.grad(made, [*given, *wanted], [of_found, *slopes], materialize_grads=True)
            slopes = list(found[1 : len(given)])
            for total, part in zip((total for total in totals if total is not None), found[len(given) :], strict=True):
                total += part
            if not wave.is_first:
                wave.send(found[0], -1)
            of_times.append(found[0])
        layers = _by_layer(slopes, states)
        of_begun = [torch.stack([layer[k] for layer in layers]) if layers else of_ended[k] for k in range(states)]
        of_input = None
        if ctx.needs_input_grad[1]:
            of_input = wave.axis.broadcast(torch.stack(of_times[::-1]) if wave.is_first else ctx.like, 0)
        return None, of_input, None, *of_begun, *totals


def _by_layer(flat: Sequence[Tensor], states: int) -> list[State]:
    return [tuple(flat[at : at + states]) for at in range(0, len(flat), states)]
