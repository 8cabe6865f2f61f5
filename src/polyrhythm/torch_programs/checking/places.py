"""Where the parameters of each rank lie in those of the twin, and which ranks hold copies of the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from polyrhythm.torch_programs.checking.seen import HeldParameter, RankSeen, Sight, digest

Wholes = Mapping[str, HeldParameter]


@dataclass(frozen=True, slots=True)
class PlaceInTwin:
    """Elements `index` of the parameter `key`; without an index the whole, or a part that nobody knows."""

    key: str
    index: Tensor | None = None

    @property
    def same(self) -> tuple[str, int]:
        """Equal for copies."""
        return self.key, 0 if self.index is None else digest(self.index)


@dataclass(slots=True)
class ParameterPlaces:
    """By rank and by the name that the rank has for a parameter. `strange` has those whose initial values are not the twin's."""

    of: dict[int, dict[str, PlaceInTwin]] = field(default_factory=dict)
    wholes: dict[str, HeldParameter] = field(default_factory=dict)
    strange: dict[int, list[str]] = field(default_factory=dict)

    def copies(self) -> Iterator[list[tuple[int, str]]]:
        """The ranks that hold the same, each with its name for it, where there are several."""
        groups: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        for rank, names in self.of.items():
            for name, place in names.items():
                groups[place.same].append((rank, name))
        yield from (group for group in groups.values() if len({rank for rank, _ in group}) > 1)

    def whole(self, parts: Mapping[int, Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Of values that ranks have by name, those of whole parameters, in double precision; NaN where nobody has any."""
        found: dict[str, Tensor] = {}
        for rank, named in parts.items():
            for name, value in named.items():
                place = self.of.get(rank, {}).get(name)
                if place is None or place.key not in self.wholes:
                    continue
                shape = self.wholes[place.key].value.shape
                total = found.setdefault(place.key, torch.full((shape.numel(),), float("nan"), dtype=torch.float64))
                index = torch.arange(shape.numel()) if place.index is None else place.index.flatten()
                if index.numel() == value.numel():
                    total[index] = value.flatten().double()
        return found


def places_beside(layout: Sight, twin: Sight | None) -> ParameterPlaces:
    """Those of the layout's ranks in the parameters of the twin's only rank; without a twin, of copies among the ranks."""
    if twin is None or not twin.ranks:
        return _alone(layout)
    wholes = next(iter(twin.ranks.values())).parameters
    places = ParameterPlaces(wholes=dict(wholes))
    for rank, seen in sorted(layout.ranks.items()):
        names = _names(seen, wholes)
        places.of[rank] = {}
        for name, held in seen.parameters.items():
            if (key := names.get(name)) is None:
                continue
            whole = wholes[wholes[key].alias]
            index = held.index if held.index is not None else _index(held, whole, seen, wholes, names)
            if index is not None:
                places.of[rank][name] = PlaceInTwin(whole.name, index)
                if not torch.equal(whole.value.flatten()[index.flatten()], held.value.flatten()):
                    places.strange.setdefault(rank, []).append(name)
    return places


def _names(seen: RankSeen, wholes: Wholes) -> dict[str, str]:
    """The twin's name of each of a rank's parameters, model by model."""
    models: dict[str, list[HeldParameter]] = defaultdict(list)
    for name, held in seen.parameters.items():
        models[name.rpartition("/")[0]].append(held)
    return {name: key for model in models.values() for name, key in _names_of_model(model, wholes).items()}


def _names_of_model(model: Sequence[HeldParameter], wholes: Wholes) -> dict[str, str]:
    """The same names, or, of a part of the twin's model, those in the place where its values are."""
    by_name = {held.name: held.name for held in model if held.name in wholes and _fits(held, wholes[held.name])}
    if all(held.name in by_name and _agrees(held, wholes[held.name]) for held in model):
        return by_name
    others = list(wholes)
    for start in range(len(others) - len(model) + 1):
        part = others[start : start + len(model)]
        if all(_agrees(held, wholes[other]) for held, other in zip(model, part, strict=True)):
            return {held.name: other for held, other in zip(model, part, strict=True)}
    return by_name


def _alike(held: HeldParameter, whole: HeldParameter) -> bool:
    """True for equal shapes; a number may be a vector of one."""
    return held.shape == whole.shape or (prod(held.shape) == prod(whole.shape) == 1 and min(len(held.shape), len(whole.shape)) == 0)


def _fits(held: HeldParameter, whole: HeldParameter) -> bool:
    return _alike(held, whole) or (held.index is None and len(held.shape) == len(whole.shape))


def _agrees(held: HeldParameter, whole: HeldParameter) -> bool:
    """True if the values may be those of that parameter."""
    if held.index is not None:
        return _alike(held, whole) and torch.equal(whole.value.flatten()[held.index.flatten()], held.value.flatten())
    if _alike(held, whole):
        return torch.equal(held.value.flatten(), whole.value.flatten())
    return _fits(held, whole) and (_constant(held.value) or _rows(held.value, whole.value) is not None)


def _index(held: HeldParameter, whole: HeldParameter, seen: RankSeen, wholes: Wholes, names: Mapping[str, str]) -> Tensor | None:
    """The places of a plain part in the whole, found by its values, or by those of its module's other parameters."""
    everywhere = torch.arange(whole.value.numel()).view(whole.value.shape)
    if _alike(held, whole):
        return everywhere
    found = _rows(held.value, whole.value)
    if found is None:
        module = held.name.rpartition(".")[0]
        for name, other in seen.parameters.items():
            if name != held.name and name.rpartition(".")[0] == module and name in names:
                found = _rows(other.value, wholes[names[name]].value)
                if found is not None and other.value.shape[found[0]] == held.value.shape[0] and found[0] == 0:
                    break
                found = None
    return None if found is None else everywhere.index_select(*found)


def _rows(part: Tensor, whole: Tensor) -> tuple[int, Tensor] | None:
    """The dimension in which `part` is smaller than `whole`, and where its rows are there; None where they are not, or twice."""
    dimensions = [each for each in range(part.dim()) if part.shape[each] != whole.shape[each]] if part.dim() == whole.dim() else []
    if len(dimensions) != 1:
        return None
    rows: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(whole.movedim(dimensions[0], 0)):
        rows[digest(row)].append(place)
    found = [rows.get(digest(row), []) for row in part.movedim(dimensions[0], 0)]
    return (dimensions[0], torch.tensor([each[0] for each in found], dtype=torch.int64)) if all(len(each) == 1 for each in found) else None


def _constant(value: Tensor) -> bool:
    return value.numel() == 0 or bool((value == value.flatten()[0]).all())


def _alone(layout: Sight) -> ParameterPlaces:
    """Without a twin: a DTensor's places are known; plain parameters are copies where they begin with the same bits, constants where their
    module and the rest of the model leave no doubt."""
    places = ParameterPlaces()
    for rank, seen in sorted(layout.ranks.items()):
        places.of[rank] = {name: PlaceInTwin(_key(held, seen, layout), held.index) for name, held in seen.parameters.items()}
        for name, held in seen.parameters.items():
            if held.index is not None:
                places.wholes.setdefault(name, held)
    return places


def _key(held: HeldParameter, seen: RankSeen, layout: Sight) -> str:
    if held.index is not None:
        return held.name
    if not _constant(held.value):
        return f"bits {digest(held.value)}"
    module = held.name.rpartition(".")[0]
    others = [each for each in seen.parameters.values() if each.index is None and not _constant(each.value)]
    own = [each for each in others if each.name.rpartition(".")[0] == module]
    witnesses = own or [each for each in others if _shared(each, layout)]
    return f"{held.name} beside {sorted(digest(each.value) for each in witnesses)}" if witnesses else f"{held.name} of {seen.rank}"


def _shared(held: HeldParameter, layout: Sight) -> bool:
    there = [seen.parameters.get(held.name) for seen in layout.ranks.values()]
    return sum(other is not None and digest(other.value) == digest(held.value) for other in there) > 1
