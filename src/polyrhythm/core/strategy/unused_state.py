"""The optimizer's state where servers or a rule of the merge take its steps: these start without it, so it would have no effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.torch_private.one_process import version
from polyrhythm.errors import CompositionError

_Marks = list[tuple[int, int]]


class UnusedState:
    """Refuses a state of `optimizer` that was loaded or written, for the parameters of `optimizers`: no step would use it."""

    def __init__(self, optimizer: torch.optim.Optimizer, optimizers: Sequence[LocalOptimizer], system: str) -> None:
        self.optimizer = optimizer
        self.optimizers = optimizers
        self.system = system
        self._marks: _Marks = []
        self._stepped = self._reset = False
        self._hooks: list[Any] = []

    def begin(self) -> None:
        """Note that the optimizer is attached. Raises CompositionError if it has taken steps before, or a state was loaded into it.

        A state that optimizers of other libraries have before their first step is allowed.
        """
        if not self.optimizers:
            return
        if type(self.optimizer).__module__.startswith("torch.optim") and any(
            _has_stepped(state) for each in self.optimizers for state in each.states()
        ):
            raise self._refused("when it was attached")
        self._listen()

    def refuse_written(self) -> None:
        """Raise CompositionError, at the start of a step, if the state was written since the last step, or reset after the first."""
        if self._reset:
            raise CompositionError(
                f"{type(self.optimizer).__name__} was given a state by load_state_dict after its first step, and under {self.system} "
                "servers, or a rule of the system's own, take the steps and would keep what they remember: set options in "
                "optimizer.param_groups, and for a fresh state take a system whose workers step (allreduce, sparknet, …)."
            )
        if self._now() != self._marks:
            raise self._refused("by hand")

    def note(self) -> None:
        """Note that a step is over, in which the optimizer may have stepped here too, on weights that are replaced later."""
        self._stepped = True
        self._marks = self._now()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load the optimizer's state of a checkpoint of this run: its options, and a state without steps."""
        self.close()
        self.optimizer.load_state_dict(dict(state))
        if self.optimizers:
            self._listen()

    def close(self) -> None:
        """Remove the hooks: the run is over."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _listen(self) -> None:
        self._marks = self._now()
        self._hooks = [
            self.optimizer.register_load_state_dict_pre_hook(self._refuse_loading),
            self.optimizer.register_load_state_dict_post_hook(self._loaded),
        ]

    def _refuse_loading(self, optimizer: torch.optim.Optimizer, loaded: Mapping[str, Any]) -> None:
        if any(_has_stepped(state) for state in loaded["state"].values()):
            raise self._refused("by load_state_dict")

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        self._marks = self._now()
        self._reset = self._stepped

    def _now(self) -> _Marks:
        """The identity of each tensor, and the number of writes to it."""
        return [
            (id(value), version(value) if isinstance(value, Tensor) else 0)
            for each in self.optimizers
            for state in each.states()
            for value in state.values()
        ]

    def _refused(self, how: str) -> CompositionError:
        return CompositionError(
            f"{type(self.optimizer).__name__} got a state of earlier steps {how} (momenta, averages of squares), and under {self.system} "
            "servers, or a rule of the system's own, take the steps and begin without one: attach an optimizer without a state (load the "
            "weights alone), resume a run of Polyrhythm with checkpoints, or take a system whose workers step (allreduce, sparknet, …)."
        )


def _has_stepped(state: Mapping[str, Any]) -> bool:
    """True if the state shows steps: some optimizers have one before their first step, with a count of 0."""
    return bool(float(state["step"])) if "step" in state else any(value is not None for value in state.values())
