"""The module that an estimator makes where it is given none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class MultilayerPerceptron:
    """Make a network of fully connected layers: `MultilayerPerceptron((64, 32))(inputs, outputs)`, with a ReLU after each hidden one.

    Raises CompositionError for a layer without units.
    """

    hidden: tuple[int, ...] = (64,)

    def __post_init__(self) -> None:
        if any(units < 1 for units in self.hidden):
            raise CompositionError(f"hidden={self.hidden!r} has a layer without units: give each at least one, or leave it out.")

    def __call__(self, inputs: int, outputs: int) -> nn.Module:
        """The network for `inputs` features and `outputs` numbers for each sample."""
        return nn.Sequential(*self._layers(inputs, outputs))

    def _layers(self, inputs: int, outputs: int) -> Iterator[nn.Module]:
        for units in self.hidden:
            yield nn.Linear(inputs, units)
            yield nn.ReLU()
            inputs = units
        yield nn.Linear(inputs, outputs)
