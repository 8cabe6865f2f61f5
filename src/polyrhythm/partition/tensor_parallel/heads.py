"""Attention divided by heads along one axis (Shoeybi et al., 2019, section 3): each rank attends with its own, and one sum joins them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows


@dataclass(frozen=True, slots=True)
class Heads:
    """Divide an attention module of so many `heads` over `axis`, in shares by `weights`, by default equal.

    Its layers `projections` make queries, keys and values, one each or all in one; `join` takes what all heads have found. Its forward
    takes the number of heads from the size of what the projections return.
    """

    heads: int
    axis: str = "tp"
    projections: tuple[str, ...] = ("query_key_value",)
    join: str = "join_heads"
    weights: tuple[float, ...] | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        children = dict(module.named_children())
        for name in (*self.projections, self.join):
            if not isinstance(children.get(name), nn.Linear):
                has = ", ".join(children) or "none"
                return f"Heads divides linear layers, and {type(module).__name__} has no {name!r} that is one, but {has}: give their names."
        for name in self.projections:
            if problem := self._columns(children[name]).refusal(children[name], place):
                return f"{name}: {problem}"
        return self._rows(children[self.join]).refusal(children[self.join], place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        for own in self.projections:
            layer = module.get_submodule(own)
            setattr(module, own, self._columns(layer).local(layer, f"{name}.{own}".lstrip("."), place))
        layer = module.get_submodule(self.join)
        setattr(module, self.join, self._rows(layer).local(layer, f"{name}.{self.join}".lstrip("."), place))
        return module

    @property
    def _groups(self) -> int:
        return 3 if len(self.projections) == 1 else 1

    def _columns(self, layer: nn.Module) -> Columns:
        assert isinstance(layer, nn.Linear)
        return Columns(self.axis, self._groups, max(layer.out_features // self._groups // self.heads, 1), weights=self.weights)

    def _rows(self, layer: nn.Module) -> Rows:
        assert isinstance(layer, nn.Linear)
        return Rows(self.axis, max(layer.in_features // self.heads, 1), weights=self.weights)
