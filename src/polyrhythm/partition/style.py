"""The protocol of a style: how one module of a model is divided over axes of the mesh.

A member is a frozen value such as `Columns("tp")`. It makes the module that a rank has in the place of the whole one, under the same name,
with parameters of the same names. That module communicates by `moves`, inside of the forward and the backward pass.
"""

from __future__ import annotations

from typing import Protocol

from torch import nn

from polyrhythm.partition.place import Place


class Style(Protocol):
    """A way to divide a module."""

    @property
    def along(self) -> tuple[str, ...]:
        """The names of the axes over which it divides."""

    def refusal(self, module: nn.Module, place: Place) -> str:
        """Why this module cannot be divided so, with a remedy; "" if it can."""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        """The rank's own module in the place of `module`, which is called `name` in its model."""
