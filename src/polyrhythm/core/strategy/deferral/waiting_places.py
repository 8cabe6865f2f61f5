"""The modules at which a forward pass needs a parameter."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


class WaitingPlaces:
    """For each module that is called, the numbers of the parameters that it needs.

    A parameter is needed by every called module that owns it; where an owner is never called, because another module uses its parameters
    (nn.MultiheadAttention those of its out_proj), by the nearest module around it that is called. The called modules are learned from the
    steps: places are added, and none is removed.
    """

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
        modules = dict(model.named_modules(remove_duplicate=False))
        self.owned: dict[int, list[int]] = {}
        self._around: dict[int, list[list[int]]] = {}
        """For each owner, and for each of its paths, the modules around it, the nearest first."""
        for path, module in modules.items():
            own = [numbers[id(parameter)] for parameter in module._parameters.values() if id(parameter) in numbers]
            if own:
                self.owned[id(module)] = own
                self._around.setdefault(id(module), []).append([id(modules[outer]) for outer in _outer(path)])
        self.called: set[int] = set()
        self._new: set[int] = set()
        self._needed: dict[int, set[int]] = {}
        self._placed: set[int] = set()

    def call(self, module: nn.Module) -> Sequence[int]:
        """The numbers of the parameters that `module`, which is called now, needs, in ascending order."""
        key = id(module)
        if key not in self.called:
            self._new.add(key)
            self.called.add(key)
        return sorted({*self._needed.get(key, ()), *self.owned.get(key, ())})

    def learn(self) -> None:
        """After a step, find places for the parameters whose owners were not called in it."""
        if not self._new:
            return
        self._new.clear()
        for owner, own in self.owned.items():
            for around in self._around[owner]:
                place = owner if owner in self.called else next((outer for outer in around if outer in self.called), None)
                if place is not None:
                    self._needed.setdefault(place, set()).update(own)
                    self._placed.update(own)

    def without_place(self, numbers: Sequence[int]) -> list[int]:
        """The numbers of `numbers` that no called module needs."""
        return [number for number in numbers if number not in self._placed]


def _outer(path: str) -> list[str]:
    """The paths of the modules around the one at `path`, the nearest first."""
    found = []
    while path:
        path = path.rpartition(".")[0]
        found.append(path)
    return found
