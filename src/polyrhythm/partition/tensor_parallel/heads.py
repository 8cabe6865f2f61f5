"""Attention divided by heads along one axis (Shoeybi et al., 2019, section 3): each rank attends with its own, and one sum joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows


@dataclass(frozen=True)
class Heads:
    """Divide an attention module of so many `heads` over `axis`, in shares by `weights`, by default equal.

    Its layers `projections` make queries, keys and values, one each or all in one; `join` takes what all heads have found. Its forward
    takes the number of heads from the size of what the projections return. `others` are styles of modules beside them, by name, such as
    ``{"widen": Columns(), "narrow": Rows()}`` for those of a block; what has none is equal at all ranks.
    """

    heads: int
    axis: str = "tp"
    projections: tuple[str, ...] = ("query_key_value",)
    join: str = "join_heads"
    weights: tuple[float, ...] | None = None
    others: Mapping[str, Style] = field(default_factory=dict)

    @property
    def along(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.axis, *(axis for style in self.others.values() for axis in style.along))))

    def refusal(self, module: nn.Module, place: Place) -> str:
        children = dict(module.named_children())
        for name in (*self.projections, self.join):
            if not isinstance(children.get(name), nn.Linear):
                has = ", ".join(children) or "none"
                return f"Heads divides linear layers, and {type(module).__name__} has no {name!r} that is one, but {has}: give their names."
        for name, style in self._styles(module).items():
            if name not in children:
                return f"others has a style for {name!r}, and {type(module).__name__} has {', '.join(children)}: give names that it has."
            if problem := style.refusal(children[name], place):
                return f"{name}: {problem}"
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        styles = self._styles(module)
        for own, child in list(module.named_children()):
            path = f"{name}.{own}".lstrip(".")
            setattr(module, own, styles[own].local(child, path, place) if own in styles else place.keep(child, path))
        for own, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, own, place.parameter(parameter, f"{name}.{own}".lstrip(".")))
        return module

    def _styles(self, module: nn.Module) -> dict[str, Style]:
        columns = {name: self._columns(module.get_submodule(name)) for name in self.projections}
        return {**columns, self.join: self._rows(module.get_submodule(self.join)), **self.others}

    @property
    def _groups(self) -> int:
        return 3 if len(self.projections) == 1 else 1

    def _columns(self, layer: nn.Module) -> Columns:
        assert isinstance(layer, nn.Linear)
        return Columns(self.axis, self._groups, max(layer.out_features // self._groups // self.heads, 1), weights=self.weights)

    def _rows(self, layer: nn.Module) -> Rows:
        assert isinstance(layer, nn.Linear)
        return Rows(self.axis, max(layer.in_features // self.heads, 1), weights=self.weights)
