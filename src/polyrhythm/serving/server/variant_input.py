"""An input for one variant of a family of models, as it travels from the gateway into a batch that mixes the variants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class VariantInput:
    """The input `value` for the model `variant`; its shape and type are those of the input."""

    variant: str
    value: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of its numbers."""
        return self.value.dtype
