"""A module with all that is in it, divided on a grid: what goes into it is divided, and what comes out is put together.

Modules between layers, and what their `forward` does with activations, run as they are on this rank's part, if they treat samples and
features one by one. Layers are taken to be registered in the order in which they are applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.dropout import PlacedDropout
from polyrhythm.partition.tensor_parallel.grid import ActivationGrid, Features, SpreadParameter, divided, enter, leave
from polyrhythm.partition.tensor_parallel.grid_embedding import GridEmbedding
from polyrhythm.partition.tensor_parallel.grid_norm import GridNorm
from polyrhythm.partition.tensor_parallel.marks import FirstPass

_ELEMENTWISE = (
    *(nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid),
    *(nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Threshold),
)


class GridLayers(Protocol):
    """How the layers of a region are divided."""

    @property
    def grid(self) -> ActivationGrid:
        """Where the next layer's inputs are."""

    @property
    def groups(self) -> Mapping[str, int]:
        """The groups of outputs of layers whose names match."""

    def linear(self, module: nn.Linear, name: str, place: Place, outputs: Features) -> nn.Module:
        """The part of a linear layer at this rank."""

    def after_linear(self) -> GridLayers:
        """The layers that follow one."""


def refusal(module: nn.Module, groups: Mapping[str, int], axes: tuple[str, ...]) -> str:
    """Why this region cannot be divided over these axes, with a remedy; "" if it can."""
    if len(set(axes)) < len(axes):
        return f"The axes {', '.join(axes)} are not different ones: give each way of dividing an axis of its own."
    for path, each in module.named_modules():
        problem = _problem(each, _groups(path, groups))
        if problem:
            return f"{path or 'The module'}, which is {type(each).__name__}, {problem}"
    names: dict[int, str] = {}
    for path, parameter in module.named_parameters(remove_duplicate=False):
        if path != names.setdefault(id(parameter), path):
            return f"{path} is tied to {names[id(parameter)]}, and the two would be divided differently: untie them."
    return ""


def _problem(module: nn.Module, groups: int) -> str:
    if isinstance(module, nn.Embedding):
        unusual = module.max_norm is not None or module.scale_grad_by_freq or module.sparse
        return "has max_norm, scale_grad_by_freq or sparse gradients, and cannot be divided so: leave these options out." * unusual
    if isinstance(module, nn.LayerNorm):
        return "normalises several dimensions, of which only the last is divided: name smaller modules." * (
            len(module.normalized_shape) > 1
        )
    if isinstance(module, nn.Linear):
        uneven = module.out_features % groups > 0
        return f"has {module.out_features} outputs, which are not {groups} equal groups: give the groups that it has." * uneven
    own = next(module.parameters(recurse=False), None) is not None
    of_torch = type(module).__module__.startswith("torch.nn.") and next(module.children(), None) is None
    if own or (of_torch and not isinstance(module, (*_ELEMENTWISE, nn.Dropout))):
        return "is no layer that can be divided so: name modules that do not have it."
    return ""


def divide(module: nn.Module, name: str, place: Place, layers: GridLayers) -> nn.Module:
    """This rank's part of the region; it takes and gives what the whole one does.

    Raises CompositionError for a region in which nothing says how many features there are.
    """
    walk = _Walk(place, layers, name)
    local = walk.replaced(module, "")
    boundary = _Boundary(layers.grid, walk.layers.grid, walk.known_features("the region's end"))
    local.register_forward_pre_hook(boundary.enter, with_kwargs=True)
    if local not in walk.made:
        first = FirstPass(layers.grid, walk.made)
        local.register_forward_pre_hook(first.begin, with_kwargs=True)
        local.register_forward_hook(first.end, always_call=True)
    local.register_forward_hook(boundary.leave)
    return local


class _Walk:
    """What is known at one place of a region, from the layers registered before it: where activations are, and their features."""

    def __init__(self, place: Place, layers: GridLayers, name: str) -> None:
        self.place, self.layers, self._name = place, layers, name
        self._features: Features | None = None
        self.made: list[nn.Module] = []

    def known_features(self, where: str) -> Features:
        if self._features is None:
            raise CompositionError(f"No layer before {where} says how many features there are: name a module that begins with one.")
        return self._features

    def replaced(self, module: nn.Module, path: str) -> nn.Module:
        """The rank's module in the place of the one at `path` of the region."""
        layer = self._layer(module, path)
        if layer is not None:
            self.made.append(layer)
            return layer
        for own, child in module.named_children():
            setattr(module, own, self.replaced(child, ".".join(filter(None, (path, own)))))
        return module

    def _layer(self, module: nn.Module, path: str) -> nn.Module | None:
        name = ".".join(filter(None, (self._name, path)))
        if isinstance(module, nn.Linear):
            self._features = Features(module.out_features, _groups(path, self.layers.groups))
            linear = self.layers.linear(module, name, self.place, self._features)
            self.layers = self.layers.after_linear()
            return linear
        if isinstance(module, nn.LayerNorm):
            return self._norm(module, name)
        if isinstance(module, nn.Embedding):
            return self._embedding(module, name)
        if isinstance(module, nn.Dropout):
            features, grid = self.known_features(name), self.layers.grid
            placed = PlacedDropout(module.p, name, self.place.seed, lambda value: features.place(value, grid))
            return placed.train(module.training)
        return None

    def _norm(self, module: nn.LayerNorm, name: str) -> nn.Module:
        grid, features = self.layers.grid, Features(module.normalized_shape[0])
        self._features = features
        whole = features.piece(module.normalized_shape, 0, grid)
        own, axes = divided(whole, 0, grid.spread), self._axes()
        weight = None if module.weight is None else self.place.parameter(module.weight, f"{name}.weight", own, *axes)
        bias = None if module.bias is None else self.place.parameter(module.bias, f"{name}.bias", own, *axes)
        return GridNorm(weight, bias, SpreadParameter(whole.numel, 0, grid), features, module.eps)

    def _embedding(self, module: nn.Embedding, name: str) -> nn.Module:
        grid, features = self.layers.grid, Features(module.embedding_dim)
        self._features = features
        own = divided(features.piece(module.weight.shape, 1, grid), 0, grid.spread)
        weight = self.place.parameter(module.weight, f"{name}.weight", own, *self._axes())
        return GridEmbedding(weight, SpreadParameter(module.num_embeddings, 0, grid), module.padding_idx)

    def _axes(self) -> tuple[str, ...]:
        grid = self.layers.grid
        return (grid.column.name, *(axis.name for axis in grid.spread))


@dataclass(frozen=True, slots=True)
class _Boundary:
    """Where activations enter a region and leave it; what comes out has these features."""

    entrance: ActivationGrid
    exit: ActivationGrid
    features: Features

    def enter(self, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        samples = {value.shape[0] for value in (*given, *named.values()) if isinstance(value, Tensor) and value.dim()}
        if len(samples) != 1:
            raise CompositionError(
                f"A divided region was given tensors whose first dimensions are {sorted(samples)}: give it activations whose first "
                "dimension is that of samples, and make other tensors in it."
            )
        self.entrance.batch.samples = samples.pop()
        divide_each = self._divided
        return tuple(map(divide_each, given)), {name: divide_each(value) for name, value in named.items()}

    def leave(self, _: nn.Module, given: tuple[Any, ...], found: Any) -> Tensor:
        if not isinstance(found, Tensor):
            raise CompositionError(f"A divided region returned {type(found).__name__}: let it return one activation.")
        return leave(found, self.exit, self.features)

    def _divided(self, value: Any) -> Any:
        return enter(value, self.entrance) if isinstance(value, Tensor) and value.dim() else value


def _groups(path: str, groups: Mapping[str, int]) -> int:
    return next((number for pattern, number in groups.items() if fnmatchcase(path, pattern)), 1)
