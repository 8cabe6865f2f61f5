"""Checks that an optimizer can be attached, and that its parameters and the model's stay as they were then."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.core.strategy.optimizers.needs_closure import closure_use
from polyrhythm.core.weights.wrapped_optimizer import advice
from polyrhythm.errors import CompositionError


def refuse_unattachable(optimizer: torch.optim.Optimizer) -> None:
    """Raise CompositionError for an optimizer that is not stepped once on one gradient, or has no learning rate to go with it."""
    kind = type(optimizer).__name__
    use = closure_use(optimizer)
    if others := [name for name in use.required if name != "closure"]:
        raise CompositionError(
            f"step() of {kind} cannot be called without {', '.join(others)}, and a strategy calls it with no argument, on the gradients "
            f"that the parameters have: give what it takes a default, or give it to the optimizer when that is made.{advice(optimizer)}"
        )
    if use.needs:
        raise CompositionError(
            f"{kind} evaluates the model several times per step, in a closure without which it cannot step, and an attached optimizer "
            "steps on one gradient: use one whose step() needs no closure, such as SGD or AdamW, or worker.whole_batch under a system with "
            f"servers, such as sandblaster, which evaluates the closure on all data.{advice(optimizer)}"
        )
    if any("lr" not in group for group in optimizer.param_groups):
        raise CompositionError(
            f'{kind} has parameter groups without "lr", and strategies send or scale learning rates: call its learning rate "lr" '
            "(1.0 where it has none), in the defaults that it gives to torch.optim.Optimizer."
        )


def refuse_modes(optimizer: torch.optim.Optimizer, agreement: Agreement, provides: frozenset[Capability]) -> None:
    """Raise CompositionError for an optimizer that swaps in other weights for evaluation, where those might be exchanged."""
    modes = [getattr(optimizer, name, None) for name in ("train", "eval")]
    alike = agreement.payload.is_gradient and Capability.COLLECTIVES in provides and agreement.rule is None
    if all(map(callable, modes)) and not alike:
        kind = type(optimizer).__name__
        raise CompositionError(
            f"{kind} has two sets of weights, and puts those for training or those for evaluation into the model by train() and eval(), "
            f"which {agreement.payload.value} sent under {agreement.consistency!r} do not know of: use a system that averages gradients "
            "(allreduce, …), or an optimizer without these modes."
        )


def changed_groups() -> CompositionError:
    """The error for parameter groups that are not those that were attached."""
    return CompositionError(
        "The optimizer's parameter groups were changed after worker.attach (add_param_group, or a parameter removed or replaced), and what "
        "is exchanged is settled there: attach it with all groups, with a learning rate of 0 for what is not trained yet or any more."
    )


class HeldParameters:
    """The parameters of an attached `model` and `optimizer`; `trained` are the ids of those that are exchanged."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, trained: Collection[int]) -> None:
        self.model = model
        self.optimizer = optimizer
        self.trained = trained
        every = [each for group in optimizer.param_groups for each in group["params"]]
        self.rest = [each for each in every if id(each) not in trained]
        self.kept = [*model.parameters(), *every]  # so that no new tensor gets their ids
        self._known = {id(each) for each in self.kept}
        self._groups = [[id(each) for each in group["params"]] for group in optimizer.param_groups]

    def refuse_changes(self, clock: int) -> None:
        """Raise CompositionError if the model or the optimizer has changed; the model is checked before few steps only."""
        for group, ids in zip(self.optimizer.param_groups, self._groups, strict=False):
            if list(map(id, group["params"])) != ids:
                raise changed_groups()
        if len(self.optimizer.param_groups) != len(self._groups):
            raise changed_groups()
        if self.rest and any(each.grad is not None for each in self.rest):
            raise CompositionError(
                "A parameter has a gradient but was frozen, or not in the optimizer, when the model was attached, so it is not "
                "exchanged: attach it with requires_grad=True, and with a learning rate of 0 until it is to be trained."
            )
        if not clock & (clock + 1):  # before the steps 1, 2, 4, 8, …
            self.refuse_other_model()

    def refuse_other_model(self) -> None:
        """Raise CompositionError if a trained parameter has left the model, or a new one that needs gradients has come."""
        now = dict(self.model.named_parameters())
        new = [name for name, each in now.items() if each.requires_grad and id(each) not in self._known]
        if new or not {id(each) for each in now.values()}.issuperset(self.trained):
            which = f" ({', '.join(new[:_SHOWN])}{', …' if len(new) > _SHOWN else ''})" if new else ""
            raise CompositionError(
                f"The model has other parameters than when it was attached{which}, and no optimizer trains those, nor are they exchanged: "
                "replace layers before worker.attach, or write the new values into the old ones, in the same way at every worker."
            )


_SHOWN = 3
