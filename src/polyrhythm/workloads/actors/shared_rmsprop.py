"""RMSProp whose statistics are parameters, so that workers share them as they share weights (Mnih et al., 2016, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class WithStatistics(nn.Module):
    """`model`, and for each of its parameters a mean of squared gradients, which begins at zero."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.statistics = nn.ParameterList(torch.zeros_like(each) for each in model.parameters())

    def forward(self, *values: Any) -> Any:
        """What the model gives."""
        return self.model(*values)


class SharedRmsprop(torch.optim.Optimizer):
    """g ← α g + (1 − α) Δθ², θ ← θ − η Δθ / √(g + ε), where g lies with the weights.

    Where workers share memory, all read and write one g, which Mnih et al. found to be more robust than one for each worker. Elsewhere it
    is exchanged as the weights are. A system whose servers run the optimizer has `torch.optim.RMSprop` there, and shares it in that way.
    """

    def __init__(self, model: WithStatistics, lr: float = 1e-3, alpha: float = 0.99, eps: float = 0.1) -> None:
        self.pairs = list(zip(model.model.parameters(), model.statistics, strict=True))
        super().__init__([each for pair in self.pairs for each in pair], {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step on the gradients that the parameters have."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rate, alpha, eps = (self.param_groups[0][name] for name in ("lr", "alpha", "eps"))
        for weights, squares in self.pairs:
            gradient: Tensor | None = weights.grad
            if gradient is not None:
                squares.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
                weights.addcdiv_(gradient, squares.clamp(min=0).add(eps).sqrt(), value=-rate)
        return loss
