"""A task of a block store: new weights of a slice from its blocks, with the same bits at any worker and on every repetition."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution
from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import copied, separate, unite
from polyrhythm.core.weights.remote_optimizer import RemoteOptimizer
from polyrhythm.core.weights.state import ModelState


@dataclass(frozen=True, slots=True)
class SliceBlocks:
    """The weights (numel,) of a slice, and what the optimizer remembers of it: a text, and tensors that this names."""

    weights: Tensor
    text: str = ""
    tensors: tuple[Tensor, ...] = ()

    @property
    def all(self) -> tuple[Tensor, ...]:
        """All tensors, the weights first."""
        return (self.weights, *self.tensors)


@dataclass(frozen=True, slots=True)
class SliceTask:
    """The update of a slice: its `layout`, the `recipe` of the user's optimizer (empty where the merge has one) and the group of all."""

    agreement: Agreement
    number: int
    layout: Layout
    recipe: str
    group: Group

    def run(self, before: SliceBlocks, contributions: Sequence[AnyContribution], step: int) -> SliceBlocks:
        """The blocks after `step`; those before are left as they are."""
        weights = before.weights.clone()
        draw = rng.stream(self.group.seed, "slice", self.number, step)
        optimizer = RemoteOptimizer(self.recipe, weights, self.layout) if self.recipe else None
        everyone = ExchangeContext(Group("", self.group.members, -1, self.group.seed), draw)
        state = ModelState(weights, self.layout, self.agreement.merge, everyone, None if optimizer is None else optimizer.step_on)
        if before.text:
            held = json.loads(before.text)
            tree = copied(unite(held["tree"], dict(zip(held["names"], before.tensors, strict=True))))  # optimizers write to what they get
            state.restore({**tree["model"], "weights": weights})
            if optimizer is not None:
                optimizer.restore(tree["optimizer"])
        state.clock = step - 1
        state.move(contributions)
        tree = {
            "model": {**state.export(), "weights": None},
            "optimizer": None if optimizer is None else optimizer.export(),
        }
        text, tensors = separate(tree)
        return SliceBlocks(weights, json.dumps({"tree": text, "names": list(tensors)}), tuple(tensors.values()))
