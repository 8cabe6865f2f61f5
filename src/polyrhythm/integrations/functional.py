"""Trees of torch tensors as one worker's parameters, for loss functions that are pure: `torch.func` and pairs of init and apply."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.torch_private.one_process import tree_leaves, tree_of
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError


class ParameterTree:
    """One worker's parameters, a tree of tensors, which `step` moves by the gradients that a pure function has.

    `params` is any nesting of dicts, lists and tuples with tensors of floating point; `optimizer(parameters)` makes the torch optimizer.
    The strategy is behind `step`, as behind that of an attached model. The final weights of the run have the names of the tree's paths.
    Raises CompositionError for a tree with anything else.

    Examples:
        >>> def train(worker: Worker) -> None:
        ...     tree = ParameterTree(worker, {"w": torch.ones(2)}, lambda all: torch.optim.SGD(all, lr=0.5))
        ...     worker.count(1)
        ...     tree.step(torch.func.grad(lambda params: params["w"].square().sum())(tree.params))
        >>> from polyrhythm.core.simulator import Simulator
        >>> from polyrhythm.core.training.run import run
        >>> run(train, workers=2, on=Simulator()).weights["['w']"]
        tensor([0., 0.])
    """

    def __init__(self, worker: Worker, params: Any, optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]) -> None:
        paths, self._tree = tree_leaves(params)
        for path, leaf in paths:
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
                raise CompositionError(
                    f"params{path} is {type(leaf).__name__}, which cannot be trained: give tensors of floating point only."
                )
        named = ((path.replace(".", "_"), nn.Parameter(leaf.detach().clone())) for path, leaf in paths)
        module = nn.ParameterDict(OrderedDict(named))  # a plain dict would be sorted by names, in which [10] is before [2]
        self._parameters = list(module.parameters())
        self._optimizer = optimizer(self._parameters)
        worker.attach(module, self._optimizer)

    @property
    def params(self) -> Any:
        """The parameters as they are now: copies, since a strategy changes them in place."""
        return tree_of([each.detach().clone() for each in self._parameters], self._tree)

    def step(self, gradients: Any) -> Any:
        """Take a step by `gradients`, a tree like the parameters, and return the parameters after it.

        Raises CompositionError for a tree of another shape.
        """
        leaves, tree = tree_leaves(gradients)
        if tree != self._tree:
            raise CompositionError(
                "The gradients have another structure than the parameters: give one gradient for each parameter, as torch.func.grad does."
            )
        for parameter, (_, gradient) in zip(self._parameters, leaves, strict=True):
            parameter.grad = gradient.detach()
        self._optimizer.step()
        return self.params
