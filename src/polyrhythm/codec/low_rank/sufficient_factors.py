"""Sufficient factors: send the gradient of a linear layer as the inputs and output gradients whose product it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits, Payload
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State, rows_of, without_gradient
from polyrhythm.errors import WorkloadError

_AS_IT_IS, _ABSENT = -1, -2
"""Codes in place of a number of samples: the gradient itself is sent; there is no gradient."""
_ROUNDINGS = 8.0
"""The gradient may differ from the product of the factors by this many rounding errors."""


@dataclass(frozen=True, slots=True)
class SufficientFactors(StatelessCodec):
    """δ and x of every linear layer, whose weight's gradient is δᵀ x and whose bias's is Σ δ: K (m + n) numbers for m n (Xie et al., 2014).

    The gradient is that of K samples through m outputs and n inputs; receivers multiply out. Sent to all it is the broadcast of Poseidon
    (Zhang et al., 2017), sent to a server that of Project Adam (Chilimbi et al., 2014). Workers may have batches of different sizes.
    Parameters without factors in the context are sent as they are. A packet: the samples of each layer; all δ, all x, and the rest, each
    end to end. All receivers compute the same product, so that they get equal bits where processors are alike. Lossless but for rounding.

    `encode` raises WorkloadError where the product of the factors is not the gradient: where weights were used outside of their
    layer too, or the gradient was changed since backward().
    """

    traits: ClassVar = CodecTraits(frozenset({Payload.FACTORS}))
    width: ClassVar = 4
    """Four tensors: numbers of samples, δ, x, and the values that are sent as they are."""

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The context's factors of each layer, with only those rows of δ that belong to the layout."""
        values = layout.views(value)
        counts, outputs, inputs = list[int](), list[Tensor](), list[Tensor]()
        rest = {k: values[k].reshape(-1) for k in range(len(values))}
        for layer in _layers(layout):
            found = context.factors.get(layer.name)
            if found is None:
                counts.append(_AS_IT_IS if not all(without_gradient([rest[k] for k in layer.places])) else _ABSENT)
            else:
                counts.append(len(found.inputs))
                outputs.append(found.outputs[:, layer.first : layer.end].detach().to("cpu", value.dtype).reshape(-1))
                inputs.append(found.inputs.detach().to("cpu", value.dtype).reshape(-1))
            if counts[-1] != _AS_IT_IS:
                for k in layer.places:
                    del rest[k]
        flat = [torch.cat([*parts, value.new_empty(0)]) for parts in (outputs, inputs, list(rest.values()))]
        packet = (torch.tensor(counts, dtype=torch.int64), *flat)
        sent = self.decode(packet, layout)
        self._compare(value, sent, layout, context)
        return Encoded(packet, sent, state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The products of the factors, and the values that were sent as they are."""
        counts, outputs, inputs, rest = packet
        flat = outputs.new_empty(layout.numel)
        views, made = layout.views(flat), set[int]()
        for layer, count in zip(_layers(layout), counts.tolist(), strict=True):
            if count == _AS_IT_IS:
                continue
            made.update(layer.places)
            if count == _ABSENT:
                for k in layer.places:
                    views[k].fill_(NO_GRADIENT)
                continue
            rows, columns = views[layer.weight].shape
            # cloned: the rounding of a product may depend on the alignment of its factors
            delta = outputs[: count * rows].clone().view(count, rows)
            x = inputs[: count * columns].clone().view(count, columns)
            outputs, inputs = outputs[count * rows :], inputs[count * columns :]
            torch.mm(delta.T, x, out=views[layer.weight])
            if layer.bias is not None:
                start, end = layer.bias_rows
                torch.sum(delta[:, start:end], 0, out=views[layer.bias])
            for k in layer.places:
                views[k].view(-1)[:1] += 0.0  # a gradient of -0.0 is one too
        for k, view in enumerate(views):
            if k not in made:
                view.copy_(rest[: view.numel()].view(view.shape))
                rest = rest[view.numel() :]
        return flat

    def _compare(self, value: Tensor, sent: Tensor, layout: Layout, context: ExchangeContext) -> None:
        given, made = layout.views(value), layout.views(sent)
        for layer in _layers(layout):
            found = context.factors.get(layer.name)
            if found is None:
                continue
            for k in layer.places:
                if not _norm(given[k] - made[k]) <= _tolerance(found, made[k]):
                    raise WorkloadError(
                        f"The gradient of {layout.names[k]} is not the product of what went through {layer.name or 'its layer'} in "
                        "backward(). Either the weight is used elsewhere too (tied, or given to a function), or the gradient was clipped, "
                        "scaled or kept since an earlier step: select other parameters for SufficientFactors, clip with "
                        "attach(..., clip_norm=...), and call zero_grad() before backward()."
                    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """A linear layer in a layout: the places of its weight and bias, and the range of rows of the weight, and of δ, that the layout has.

    `bias` is None where the layout has no bias, or other rows of it than of the weight: it is then sent as it is.
    """

    name: str
    weight: int
    first: int
    end: int
    bias: int | None
    bias_rows: tuple[int, int]

    @property
    def places(self) -> Sequence[int]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]


def _layers(layout: Layout) -> Iterator[_Layer]:
    """The parts of the layout that may be linear layers, by the names and dimensions of their parameters."""
    parts = [rows_of(name, shape[0] if shape else 1) for name, shape in zip(layout.names, layout.shapes, strict=True)]
    biases = {whole: k for k, (whole, _, _) in enumerate(parts) if len(layout.shapes[k]) == 1}
    for k, (whole, first, end) in enumerate(parts):
        path, _, local = whole.rpartition(".")
        if local != "weight" or len(layout.shapes[k]) != 2:
            continue
        bias = biases.get(f"{path}.bias" if path else "bias")
        if bias is not None and not (first <= parts[bias][1] and parts[bias][2] <= end):
            bias = None
        rows = (0, 0) if bias is None else (parts[bias][1] - first, parts[bias][2] - first)
        yield _Layer(path, k, first, end, bias, rows)


def _tolerance(factors: Factors, product: Tensor) -> float:
    """The largest rounding error of a gradient: of its sum in the product's type, and of its result in the layer's own type."""
    inputs = _norm(factors.inputs) if product.dim() > 1 else len(factors.inputs) ** 0.5
    summed = torch.finfo(product.dtype).eps * _norm(factors.outputs) * inputs
    return _ROUNDINGS * (summed + torch.finfo(factors.outputs.dtype).eps * _norm(product))


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.vector_norm(matrix, dtype=torch.float64))
