"""Work and depth of torch's operations (Ben-Nun and Hoefler, 2019, section 4).

Work is multiply-adds of products, and one for each element that another operation computes; depth is the longest chain of them, where
a sum of n is a tree of log2 n. Moving numbers costs neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any, NamedTuple

from torch import Tensor


class OperationCost(NamedTuple):
    """The `work` and the `depth` of one call; `products` is the part of the work that is multiply-adds of products."""

    work: int
    depth: float
    products: int = 0


Formula = Callable[..., OperationCost]
NOTHING = OperationCost(0, 0.0)


def cost_of(name: str, out: Any, args: Sequence[Any]) -> OperationCost:
    """The cost of the operation of aten of this name, by its result and its arguments."""
    formula = _FORMULAS.get(name)
    if formula is not None:
        return formula(out, *args)
    if _MOVES.fullmatch(name):
        return NOTHING
    results, given = _tensors(out), _tensors(args)
    if not results:
        return NOTHING
    elements = max(each.numel() for each in results)
    if _SUMS.match(name) and given:
        return OperationCost(given[0].numel(), _tree(given[0].numel() / max(1, results[0].numel())))
    return OperationCost(elements, 1.0)


def _tensors(found: Any) -> list[Tensor]:
    return [each for each in (found if isinstance(found, (list, tuple)) else (found,)) if isinstance(each, Tensor)]


def _tree(count: float) -> float:
    """The depth of a sum of `count`."""
    return log2(count) if count > 1 else 0.0


def _product(out: Tensor, a: Tensor, *others: Any) -> OperationCost:
    """`a` @ b, also in batches: N Cin Cout, and a sum over Cin."""
    work = out.numel() * a.shape[-1]
    return OperationCost(work, _tree(a.shape[-1]), work)


def _added_product(out: Tensor, added: Tensor, a: Tensor, *others: Any) -> OperationCost:
    return _product(out, a)


def _dot(out: Tensor, a: Tensor, *others: Any) -> OperationCost:
    return OperationCost(a.numel(), _tree(a.numel()), a.numel())


def _convolution_work(narrow: Tensor, wide: Tensor, weight: Tensor, transposed: bool) -> int:
    """N Cout Cin H' W' Kx Ky; of a transposed convolution the `wide` side is the input of the product."""
    return (wide if transposed else narrow).numel() * prod(weight.shape[1:])


def _convolution(
    out: Tensor, x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, *others: Any
) -> OperationCost:
    work = _convolution_work(out, x, weight, bool(transposed))
    return OperationCost(work, sum(map(_tree, weight.shape[1:])), work)


def _convolution_backward(
    out: Any,
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    *others: Any,
) -> OperationCost:
    """Each gradient has the work of the way forward: of the weights a sum over samples and places, of the data over filters and kernel."""
    to_data, to_weights, _ = others[2]
    work = (bool(to_data) + bool(to_weights)) * _convolution_work(gradient, x, weight, bool(transposed))
    data = sum(map(_tree, weight.shape[2:])) + _tree(weight.shape[0])
    weights = _tree(gradient.shape[0]) + sum(map(_tree, gradient.shape[2:]))
    return OperationCost(work, max(data if to_data else 0.0, weights), work)


def _pooling(out: Any, x: Tensor, kernel: Sequence[int], *others: Any) -> OperationCost:
    """N C H' W' Kx Ky, and a maximum or sum over the kernel."""
    size = [*kernel] * (2 if len(kernel) == 1 else 1)
    return OperationCost(_tensors(out)[0].numel() * prod(size), sum(map(_tree, size)))


def _pooling_backward(out: Tensor, gradient: Tensor, x: Tensor, kernel: Sequence[int], *others: Any) -> OperationCost:
    return _pooling(gradient, x, kernel)


def _normalization(x_place: int, others_kept: Callable[[Tensor], int]) -> Formula:
    """One for each element, and sums over what is normalized together; `others_kept` is how many such sums there are."""

    def cost(out: Any, *args: Any) -> OperationCost:
        x = args[x_place]
        return OperationCost(x.numel(), _tree(x.numel() / others_kept(x)))

    return cost


def _channels(x: Tensor) -> int:
    return int(x.shape[1])


def _by_dimension(out: Tensor, x: Tensor, dim: int, *others: Any) -> OperationCost:
    """A softmax: sums over one dimension."""
    return OperationCost(x.numel(), _tree(x.shape[dim] if x.ndim else 1))


def _by_dimension_backward(out: Tensor, gradient: Tensor, x: Tensor, dim: int, *others: Any) -> OperationCost:
    return _by_dimension(out, x, dim)


def _layer_norm(out: Any, x: Tensor, shape: Sequence[int], *others: Any) -> OperationCost:
    return OperationCost(x.numel(), _tree(prod(shape)))


def _layer_norm_backward(out: Any, gradient: Tensor, x: Tensor, shape: Sequence[int], *others: Any) -> OperationCost:
    """Sums over the normalized dimensions for the data, over the others for the weights."""
    return OperationCost(x.numel(), max(_tree(prod(shape)), _tree(x.numel() / prod(shape))))


def _attention(out: Any, query: Tensor, key: Tensor, value: Tensor, *others: Any) -> OperationCost:
    """The scores, their softmax, and their product with the values."""
    rows, columns = prod(query.shape[:-1]), key.shape[-2]
    products = rows * columns * (query.shape[-1] + value.shape[-1])
    return OperationCost(products + rows * columns, _tree(query.shape[-1]) + 2 * _tree(columns), products)


def _attention_backward(out: Any, gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: Any) -> OperationCost:
    """The scores once more, and two products for each of the two of the way forward."""
    rows, columns, width = prod(query.shape[:-1]), key.shape[-2], query.shape[-1]
    products = rows * columns * (3 * width + 2 * value.shape[-1])
    return OperationCost(products + rows * columns, 2 * (_tree(width) + 2 * _tree(columns)), products)


def _recurrent(out: Any, x: Tensor, inputs: Tensor, hidden: Tensor, *others: Any) -> OperationCost:
    """All times of a recurrent layer: one after another, since each cell waits for the one before."""
    times, work = x.shape[0], (x.numel() // x.shape[-1]) * (inputs.numel() + hidden.numel())
    return OperationCost(work, times * (max(_tree(inputs.shape[-1]), _tree(hidden.shape[-1])) + 1), work)


def _recurrent_backward(out: Any, x: Tensor, inputs: Tensor, hidden: Tensor, *others: Any) -> OperationCost:
    once = _recurrent(out, x, inputs, hidden)
    return OperationCost(2 * once.work, once.depth, 2 * once.products)


_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "mv"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _added_product),
    **dict.fromkeys(("dot", "vdot"), _dot),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "max_pool2d_with_indices": _pooling,
    "avg_pool2d": _pooling,
    "max_pool2d_with_indices_backward": _pooling_backward,
    "avg_pool2d_backward": _pooling_backward,
    "native_batch_norm": _normalization(0, _channels),
    "_native_batch_norm_legit": _normalization(0, _channels),
    "native_batch_norm_backward": _normalization(1, _channels),
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    **dict.fromkeys(("_softmax", "_log_softmax"), _by_dimension),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _by_dimension_backward),
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "mkldnn_rnn_layer": _recurrent,
    "mkldnn_rnn_layer_backward": _recurrent_backward,
}
_MOVES = re.compile(
    r"_?(unsafe_)?(view|reshape|alias|t|transpose|permute|expand|slice|select|narrow|unsqueeze|squeeze|split|split_with_sizes|chunk|unbind|stack|cat|"
    r"clone|to_copy|copy|detach|lift_fresh|as_strided|flip|roll|repeat|diagonal|unfold|im2col|constant_pad_nd|index_select|embedding|gather|index|"
    r"empty|empty_like|empty_strided|new_empty|new_empty_strided|new_zeros|zeros|zeros_like|ones|ones_like|full|full_like|arange|fill|zero|scalar_tensor|"
    r"local_scalar_dense|(select|slice|unfold|as_strided|diagonal)_backward|resize|set|tril|triu|tril_indices|triu_indices|masked_fill|where)_?"
)
"""Operations that move numbers, or make constants."""
_SUMS = re.compile(
    r"_?(sum|mean|amax|amin|max|min|argmax|argmin|prod|var|var_mean|std|norm|linalg_vector_norm|logsumexp|nll_loss_forward|mse_loss|all|any|adaptive_avg_pool2d)$"
)
"""Operations that make one number of several."""
