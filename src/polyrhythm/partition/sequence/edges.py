"""Where a model's sequence begins to be divided, and where it ends; and layers that are divided by features between them.

Sequence parallelism on the axis of tensor parallelism (Korthikanti et al., 2022, "Reducing activation recomputation", section 4.2.2): what
lies between the layers that are divided by columns and rows is divided along the sequence. The bytes are those of tensor parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.equal_weights import EqualWeights
from polyrhythm.partition.experts.mixture import MixtureOfExperts
from polyrhythm.partition.kinds import CONVOLUTIONS, INSTANCE_NORMS
from polyrhythm.partition.moves import gather_replicated, replicate_together, scatter_total
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence.attention import DotProductAttention
from polyrhythm.partition.sequence.tokens import Tokens
from polyrhythm.partition.style import Style
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows

_ACROSS_TOKENS = (nn.Dropout, DotProductAttention, MixtureOfExperts, *INSTANCE_NORMS, nn.MultiheadAttention, nn.RNNBase, *CONVOLUTIONS)


@dataclass(frozen=True, slots=True)
class Tokenwise:
    """Keep a module whole that treats each token by itself, such as a layer norm or an MLP, on this rank's tokens.

    With `enters` its input is the whole sequence along that dimension, of which each rank takes its tokens: an embedding of symbols, and
    one of positions. With `leaves` its output is put together along that dimension again.

    The module may be a whole part of a model, such as its blocks. `inside` are then the styles of the modules within it that need other
    tokens, such as `RingAttention(tokens)`: each replaces those that it does not refuse. What the module makes from the number of its
    tokens, such as their places, it makes from this rank's.
    """

    tokens: Tokens
    enters: int | None = None
    leaves: int | None = None
    inside: tuple[Style, ...] = ()

    @property
    def along(self) -> tuple[str, ...]:
        return (self.tokens.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        equal = EqualWeights((self.tokens.axis,), self.inside)
        return equal.unanswered(module, place, _ACROSS_TOKENS) or equal.refusal(module, place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        axis, tokens = place.axis(self.tokens.axis), self.tokens
        local = EqualWeights((tokens.axis,), self.inside).local(module, name, place)
        if (entrance := self.enters) is not None:

            def part(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
                return tokens.part(args[0], axis, entrance), *args[1:]

            local.register_forward_pre_hook(part)
        if (exit_ := self.leaves) is not None:

            def whole(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
                return tokens.join(output, axis, exit_)

            local.register_forward_hook(whole)
        return local


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """Divide the outputs of an `nn.Linear` over the axis along which its input's tokens (…, time, width) are divided.

    All tokens are gathered before. `columns` says how the outputs are divided.
    """

    tokens: Tokens
    columns: Columns

    @property
    def along(self) -> tuple[str, ...]:
        return (self.columns.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if self.columns.gathered:
            return "Columns(gathered=True) gives all ranks all outputs, and the tokens are divided again after them: leave it out."
        return _mismatch(self.tokens, self.columns.axis, place) or self.columns.refusal(module, place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Linear)
        axis = place.axis(self.tokens.axis)
        columns = self.columns.local(module, name, place)
        return TokenColumnsLinear(columns.weight, columns.bias, axis, self.tokens.sizes(axis.size))  # type: ignore[arg-type]


class TokenColumnsLinear(nn.Module):
    """Some outputs of a linear layer: (…, own time, inputs) to (…, whole time, own outputs), in the order of ranks."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, axis: Axis, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self._axis, self._sizes = axis, sizes

    def forward(self, value: Tensor) -> Tensor:
        return F.linear(gather_replicated(value, self._axis, value.dim() - 2, self._sizes), self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Divide the inputs of an `nn.Linear` over an axis, along which its output's tokens (…, time, width) are divided.

    `rows` says how the inputs are divided.
    """

    tokens: Tokens
    rows: Rows

    @property
    def along(self) -> tuple[str, ...]:
        return (self.rows.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if self.rows.whole_input:
            return (
                "Rows(whole_input=True) takes all inputs, and TokenRows follows TokenColumns, which gives each rank its own: leave it out."
            )
        return _mismatch(self.tokens, self.rows.axis, place) or self.rows.refusal(module, place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Linear)
        axis = place.axis(self.tokens.axis)
        rows = self.rows.local(module, name, place)
        return TokenRowsLinear(rows.weight, rows.bias, axis, self.tokens.sizes(axis.size))  # type: ignore[arg-type]


class TokenRowsLinear(nn.Module):
    """The product with some inputs of a linear layer, added up: (…, whole time, own inputs) to (…, own time, outputs)."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, axis: Axis, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self._axis, self._sizes = axis, sizes

    def forward(self, value: Tensor) -> Tensor:
        product = scatter_total(F.linear(value, self.weight), self._axis, value.dim() - 2, self._sizes)
        return product if self.bias is None else product + replicate_together([self.bias], self._axis)[0]


def _mismatch(tokens: Tokens, axis: str, place: Place) -> str:
    if tokens.axis != axis:
        return f"The tokens are divided over {tokens.axis!r} and the features over {axis!r}: give both the same axis, or use RingAttention."
    flat = [span for spans in tokens.spans(place.axis(axis).size) for span in spans]
    if flat != sorted(flat):
        return f"{tokens.order} gives ranks tokens that do not follow each other, which only rings need: use Consecutive()."
    return ""
