"""The factors of a linear layer's gradient: two thin matrices whose product is the gradient of its weight.

`strategy.payloads` captures them in `backward()`, and codecs find them in the `ExchangeContext`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Factors:
    """The inputs (K, n) of a layer of n inputs and m outputs, and the gradients of its outputs (K, m), for K samples.

    With δ for the gradients and x for the inputs, the weight's gradient is δᵀ x and the bias's Σ δ.
    """

    inputs: Tensor
    outputs: Tensor
