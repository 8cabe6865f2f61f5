"""`Zero(stage)`: replicas along an axis that share their state, in place of an exchange of gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.zero.sharded import ShardedParameter
from polyrhythm.partition.zero.stages import ShardedGradients, ShardedOptimizer, ShardedUnit, ShardedWeights
from polyrhythm.partition.zero.unit import ParameterSeat, Unit, computing_within

_STAGES: Mapping[int, type[ShardedOptimizer] | type[ShardedGradients] | type[ShardedWeights]] = {
    1: ShardedOptimizer,
    2: ShardedGradients,
    3: ShardedWeights,
}
_LISTS = (nn.Sequential, nn.ModuleList)


@dataclass(frozen=True, slots=True, repr=False)
@checked
class Zero:
    """Divide the optimizer's state among the replicas of an axis (stage 1), their gradients too (2), and their weights (3).

    Values are those of the mean of all gradients, as with an all-reduce (Rajbhandari et al., 2020, "ZeRO"). `units` are patterns of modules
    whose parameters are moved together; by default each child of the model is one, or each entry of a child that is a Sequential or a
    ModuleList. Raises CompositionError for another stage.

    Examples:
        >>> Zero(3)
        Zero(3)
    """

    stage: int
    units: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Zero({self.stage}, units={self.units})" if self.units else f"Zero({self.stage})"

    def __post_init__(self) -> None:
        if self.stage not in _STAGES:
            raise CompositionError(f"Zero({self.stage}) is none of the stages: give 1 (optimizer), 2 (and gradients) or 3 (and weights).")

    def shard(self, model: nn.Module, axis: Axis) -> tuple[list[ShardedUnit], dict[int, nn.Parameter]]:
        """The units of `model`, whose parameters become this rank's shards; these by the ids of the parameters whose place they take.

        Raises CompositionError for a recurrent layer of torch, which keeps its weights in a list besides.
        """
        whole = list(model.parameters())  # so that no other gets its id
        sharded = {id(parameter): ShardedParameter(parameter, axis, number) for number, parameter in enumerate(whole)}
        stages = list[ShardedUnit]()
        for module, owners in self._divided(model):
            seats: dict[int, list[ParameterSeat]] = {}
            for owner in owners:
                for own, parameter in owner.named_parameters(recurse=False):
                    seats.setdefault(id(parameter), []).append(ParameterSeat(owner, own))
            for unit in _units(axis, [(sharded[key], each) for key, each in seats.items()]):
                stages.append(_STAGES[self.stage](unit))
                computing_within(module, stages[-1].computing)
        for owner in list(model.modules()):
            for own, parameter in list(owner.named_parameters(recurse=False)):
                setattr(owner, own, sharded[id(parameter)].shard)
        return stages, {key: each.shard for key, each in sharded.items()}

    def _divided(self, model: nn.Module) -> Iterator[tuple[nn.Module, list[nn.Module]]]:
        """Each unit's module, and the modules inside whose parameters are the unit's: those of no unit further inside."""
        roots = [name for name, _ in model.named_modules() if name and self._is_unit(model, name)]
        owners: dict[str, list[nn.Module]] = {name: [] for name in (*roots, "")}
        for name, module in model.named_modules():
            if isinstance(module, nn.RNNBase):
                raise CompositionError(
                    f"{name or 'The model'} is a recurrent layer of torch, whose weights cannot be shards: leave ZeRO out."
                )
            inside = [root for root in roots if f"{name}.".startswith(f"{root}.")]
            owners[max(inside, key=len, default="")].append(module)
        for name, found in owners.items():
            yield model.get_submodule(name), found

    def _is_unit(self, model: nn.Module, name: str) -> bool:
        if self.units:
            return any(fnmatchcase(name, pattern) for pattern in self.units)
        parent, _, _ = name.rpartition(".")
        module = model.get_submodule(name)
        within = not parent or ("." not in parent and isinstance(model.get_submodule(parent), _LISTS))
        return within and not isinstance(module, _LISTS)


def _units(axis: Axis, seated: list[tuple[ShardedParameter, list[ParameterSeat]]]) -> Iterator[Unit]:
    """One for each type and device, of those that have any."""
    kinds = dict.fromkeys((each.shard.dtype, each.shard.device) for each, _ in seated)
    for kind in kinds:
        own = [(each, seats) for each, seats in seated if (each.shard.dtype, each.shard.device) == kind]
        yield Unit(axis, [each for each, _ in own], [seats for _, seats in own])
