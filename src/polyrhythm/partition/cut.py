"""The cut of a model: which of its modules are divided, over which axes of the mesh, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch import nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.offload.offload import Offload
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.place import Place
from polyrhythm.partition.rules.styles import styles_by
from polyrhythm.partition.style import Style

_SHOWN = 8


@dataclass(frozen=True)
class Cut:
    """Divide the modules whose names match a pattern of `names`, each in its style: `Cut({"*.up": Columns(), "*.down": Rows()})`.

    Patterns are those of file names, `*` for any text; the first that matches counts, and what is inside of a divided module is the style's
    matter. Modules that none matches are the same at all workers along the axes that divide others. `pipeline` divides the steps of the
    whole model among stages; the training function then calls `worker.train_step`. `offload` keeps in a file
    what a worker then has of the weights and of the optimizer's state.

    Examples:
        >>> from polyrhythm.partition.tensor_parallel.columns import Columns
        >>> Cut({"up": Columns()}).axes
        ('tp',)
    """

    names: Mapping[str, Style] = field(default_factory=dict)
    pipeline: Pipelined | None = None
    offload: Offload | None = None

    @staticmethod
    def by_rules(model: nn.Module, rules: Mapping[str, str], pipeline: Pipelined | None = None) -> Cut:
        """The cut that divides dimensions of weights by their names: `Cut.by_rules(model, {"mlp": "tp", "heads": "tp"})`.

        Modules name the dimensions of their weights by `partition.rules.dimensions`. `model` is an example of the run's; it may be without
        memory. Raises CompositionError for rules that are not legal, with the tensor and the names.
        """
        return Cut(styles_by(model, rules), pipeline)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes along which it divides."""
        along = [axis for style in self.names.values() for axis in style.along]
        return tuple(dict.fromkeys([*along, *(self.pipeline.along if self.pipeline else ())]))

    def apply(self, model: nn.Module, place: Place, prefix: str = "") -> None:
        """Replace the modules of `model` by those of the rank at `place`; `prefix` is its own name, if it is in another.

        Raises CompositionError for a module that cannot be divided so, with its name and the reason, and for a pattern that matches none.
        """
        found = list(self._divided(model))
        matched = {pattern for _, pattern in found}
        for pattern in self.names:
            if pattern not in matched:
                raise CompositionError(f"The cut's pattern {pattern!r} matches no module: the model has {_listed(model)}.")
        for name, pattern in found:
            style, module = self.names[pattern], model.get_submodule(name)
            if reason := style.refusal(module, place):
                raise CompositionError(f"{name} cannot be divided by {style!r}: {reason}")
        self._replace(model, place, prefix, found)

    def _replace(self, model: nn.Module, place: Place, prefix: str, found: Sequence[tuple[str, str]]) -> None:
        """Put the rank's modules in the place of those that were `found`, wherever they stand, and keep the rest."""
        made: dict[int, tuple[nn.Module, Style, nn.Module]] = {}
        for name, pattern in found:
            style, module = self.names[pattern], model.get_submodule(name)
            if id(module) not in made:
                made[id(module)] = module, style, style.local(module, ".".join(filter(None, (prefix, name))), place)
            elif made[id(module)][1] != style:
                raise CompositionError(
                    f"{name} stands at several places in the model, for which the cut has {made[id(module)][1]!r} and {style!r}: divide it "
                    "by one of them at all places."
                )
        inside = tuple(f"{name}." for name, _ in found)
        divided = [path for path, each in model.named_modules(remove_duplicate=False) if id(each) in made and not path.startswith(inside)]
        for path, local in [(path, made[id(model.get_submodule(path))][2]) for path in divided]:
            parent, _, own = path.rpartition(".")
            setattr(model.get_submodule(parent), own, local)
        place.keep(model, prefix, tuple(divided))

    def _divided(self, model: nn.Module) -> Iterator[tuple[str, str]]:
        """The outermost modules that match, and their patterns."""
        inside: tuple[str, ...] = ()
        for name, _ in model.named_modules(remove_duplicate=False):
            if not name or name.startswith(inside):
                continue
            pattern = next((pattern for pattern in self.names if fnmatchcase(name, pattern)), None)
            if pattern is not None:
                inside = (*inside, f"{name}.")
                yield name, pattern


def _listed(model: nn.Module) -> str:
    names = [name for name, _ in model.named_modules() if name]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
