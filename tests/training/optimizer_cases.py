"""Optimizers beyond the plain ones of torch.optim, and what users change of one that is attached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data, network

from .scenes import Train, loop, sgd
from .unstepped import Lookahead, Sam
from .user_cases import OWN_LIMITS, Case

Optimizer = torch.optim.Optimizer
Make = Callable[[nn.Module], Optimizer]


class Own(Optimizer):
    """Plain SGD of the user's own, without a closure, the learning rate under a name of choice."""

    def __init__(self, params: Any, rate: str = "lr") -> None:
        super().__init__(params, {rate: 0.1})
        self.rate = rate

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One step."""
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each.sub_(group[self.rate] * each.grad)


class Calls(Own):
    """Calls its closure without asking whether there is one."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        loss = closure()
        super().step()
        return loss


class TakesClosure(Own):
    """Takes a closure, if there is one, in ways that all call it before."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        loss = closure() if closure is not None else None
        if closure is None:
            loss = None
        super().step()
        return loss


class Raises(Own):
    """Says by itself that it needs a closure."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        if closure is None:
            raise RuntimeError("needs a closure")
        super().step()


class Indexes(Own):
    """Takes its closure out of all arguments."""

    def step(self, *args: Any) -> Any:  # type: ignore[override]
        """One step."""
        loss = args[0]()
        super().step()
        return loss


class Wraps(Own):
    """Calls its closure under another name."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        evaluate = torch.enable_grad()(closure)
        loss = evaluate()
        super().step()
        return loss


class Delegates(Own):
    """Has a method that calls its closure, and inherits from one."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        loss = self.evaluated(closure)
        super().step()
        return loss

    def evaluated(self, function: Any) -> Any:
        """The loss."""
        return function()


class Inherits(Calls):
    """Steps by the step of another class."""

    def step(self, closure: Any = None) -> Any:
        """One step."""
        return super().step(closure)


class Requires(Own):
    """Has a parameter without a default."""

    def step(self, loss_fn: Any) -> Any:  # type: ignore[override]
        """One step."""
        super().step()
        return loss_fn


class Looks(Own):
    """Does not take closures, declares it, and has an option of one step."""

    def step(self, closure: Any = None, grads: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        if closure is not None:
            raise RuntimeError("takes no closure")
        assert grads is None
        super().step()


class ReturnsEarly(Own):
    """Has a way without a closure, and another that evaluates it in a loop."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        if closure is None:
            return super().step()
        for _ in range(3):
            loss = closure()
            super().step()
        return loss


class Twice(Own):
    """Evaluates the closure that it is given before and after."""

    def step(self, *args: Any) -> Any:  # type: ignore[override]
        """One step."""
        evaluate = args[0] if args else None
        before = evaluate() if evaluate is not None else None
        super().step()
        return (before, evaluate()) if evaluate else None


def evaluated(function: Any) -> Any:
    """The loss."""
    return function()


class Hides(Own):
    """Fails without a closure in a way that no code shows."""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """One step."""
        super().step()
        return evaluated(closure)


class ScheduleFree(Own):
    """Defazio et al., 2024, as it is mostly written: train() and eval() exchange the weights."""

    def train(self) -> None:
        """Put the weights for training in place."""

    def eval(self) -> None:
        """Put the weights for evaluation in place."""


class Complex(nn.Module):
    """Has a complex parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 12)
        self.last = nn.Parameter(torch.randn(12, 3, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return (self.first(x).to(torch.complex64) @ self.last).abs()


def frozen() -> nn.Module:
    """The first layer is not trained."""
    model = network()
    model[0].requires_grad_(False)  # type: ignore[index]
    return model


Change = Callable[[nn.Module, Optimizer], None]


def changes(change: Change, build: Callable[[], nn.Module] = network, make: Make = sgd) -> Train:
    """Trains, and changes something between two steps."""

    def train(worker: Any) -> None:
        model = build()
        model, optimizer = worker.attach(model, make(model))
        for number, (x, y) in enumerate(worker.batches(data(), batch_size=8)):
            if number == 2:
                change(model, optimizer)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return train


def trains(make: Make, build: Callable[[], nn.Module] = network) -> Train:
    """Trains."""
    return changes(lambda model, optimizer: None, build, make)


def steps_by(make: Make, how: Callable[[Optimizer, Callable[[], Tensor]], object]) -> Train:
    """Trains, with `how` in the place of `optimizer.step()`, which gets what computes the loss and its gradient."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, make(model))
        for x, y in worker.batches(data(), batch_size=8):

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss

            closure()
            how(optimizer, closure)

    return train


def head(model: nn.Module) -> Optimizer:
    """Trains the last layer alone."""
    return torch.optim.SGD(model[2].parameters(), lr=0.1)  # type: ignore[index]


def unfreezes(model: nn.Module, optimizer: Optimizer) -> None:
    """As one goes on from the head to the whole model."""
    model[0].requires_grad_(True)  # type: ignore[index]
    optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.01})  # type: ignore[index]


def freezes(model: nn.Module, optimizer: Optimizer) -> None:
    """The first layer stays as it is from now on, at every worker."""
    model.zero_grad()
    model[0].requires_grad_(False)  # type: ignore[index]


def removes(model: nn.Module, optimizer: Optimizer) -> None:
    """A parameter leaves its group."""
    optimizer.param_groups[0]["params"].pop()


def replaces_layer(model: nn.Module, optimizer: Optimizer) -> None:
    """A new head, which the optimizer does not have."""
    model[2] = nn.Linear(12, 3)  # type: ignore[index]


def compiled(model_of: Callable[[nn.Module], Any] = lambda model: torch.compile(model, backend="eager")) -> Train:
    """Trains a compiled model."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        loop(worker, model_of(model), optimizer)

    return train


def around(worker: Any) -> None:
    """A wrapper around the attached optimizer, which steps by it and then writes weights; made when all have those of worker 0."""
    model = network()
    model, base = worker.attach(model, sgd(model))
    loop(worker, model, Lookahead(base))


GROUPS = r"parameter groups were changed after worker\.attach"
ARGUMENTS = r"step\(\) of the attached \w+ was given .*, and takes a closure or nothing"
OFTEN = r"evaluates the closure that it is given several times per step"
CLOSURE = r"evaluates the model several times per step"
MODES = r"has two sets of weights, and puts those for training or those for evaluation into the model"
WRITTEN = r"The weights were written by hand at worker/\d, after "

CASES = {
    "a closure without which it cannot step": Case(trains(lambda model: Calls(model.parameters())), CLOSURE),
    "a closure that it asks for": Case(trains(lambda model: Raises(model.parameters())), CLOSURE),
    "a closure that it can do without": Case(trains(lambda model: TakesClosure(model.parameters()))),
    "a closure out of all arguments": Case(trains(lambda model: Indexes(model.parameters())), CLOSURE),
    "a closure under another name": Case(trains(lambda model: Wraps(model.parameters())), CLOSURE),
    "a closure that a method calls": Case(trains(lambda model: Delegates(model.parameters())), CLOSURE),
    "a closure that another class calls": Case(trains(lambda model: Inherits(model.parameters())), CLOSURE),
    "a parameter without a default": Case(
        trains(lambda model: Requires(model.parameters())), r"step\(\) of Requires cannot be called without loss_fn"
    ),
    "a closure that no code shows": Case(
        trains(lambda model: Hides(model.parameters())),
        r"step\(\) of the attached Hides, called without closure, raised \w+Error: .*use an optimizer that can step so",
    ),
    "options of one step, as they are anyway": Case(
        steps_by(lambda model: Looks(model.parameters()), lambda optimizer, closure: optimizer.step(grads=None))  # type: ignore[call-arg]
    ),
    "an option of one step": Case(
        steps_by(lambda model: Looks(model.parameters()), lambda optimizer, closure: optimizer.step(grads=[])),  # type: ignore[call-arg]
        ARGUMENTS,
    ),
    "an argument that is no closure": Case(steps_by(sgd, lambda optimizer, closure: optimizer.step(closure())), ARGUMENTS),  # type: ignore[arg-type]
    "a closure": Case(steps_by(sgd, lambda optimizer, closure: optimizer.step(closure))),  # type: ignore[arg-type]
    "a closure that is asked for first": Case(
        steps_by(lambda model: TakesClosure(model.parameters()), lambda optimizer, closure: optimizer.step(closure))  # type: ignore[arg-type]
    ),
    "a way without a closure": Case(trains(lambda model: ReturnsEarly(model.parameters()))),
    "a closure in a loop": Case(
        steps_by(lambda model: ReturnsEarly(model.parameters()), lambda optimizer, closure: optimizer.step(closure)),  # type: ignore[arg-type]
        OFTEN,
    ),
    "a closure twice": Case(
        steps_by(lambda model: Twice(model.parameters()), lambda optimizer, closure: optimizer.step(closure)),  # type: ignore[arg-type]
        OFTEN,
    ),
    "no closure": Case(trains(lambda model: Own(model.parameters()))),
    "SAM itself": Case(trains(lambda model: Sam(model.parameters(), torch.optim.SGD, lr=0.1)), rf"{CLOSURE}.*To keep Sam, attach the SGD"),
    "no learning rate": Case(trains(lambda model: Own(model.parameters(), "rate")), r'parameter groups without "lr"'),
    "two sets of weights": Case(trains(lambda model: ScheduleFree(model.parameters())), limits=(*OWN_LIMITS, MODES)),
    "complex parameters": Case(trains(sgd, Complex), r"for real numbers: make the parameters real.*view_as_real"),
    "a group added": Case(changes(unfreezes, frozen, head), GROUPS),
    "a parameter unfrozen": Case(changes(lambda m, o: m.requires_grad_() and None, frozen), r"has a gradient but was frozen"),
    "a parameter frozen": Case(changes(freezes)),
    "a parameter removed": Case(changes(removes), GROUPS),
    "a layer replaced": Case(changes(replaces_layer), r"has other parameters than when it was attached"),
    "compiled": Case(compiled()),
    "a wrapper around the attached one": Case(around, limits=(*OWN_LIMITS, WRITTEN)),
    "foreach": Case(trains(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True))),
    "fused": Case(trains(lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, fused=True))),
    "maximize": Case(trains(lambda model: torch.optim.SGD(model.parameters(), lr=0.01, maximize=True))),
    "a rate that is a tensor": Case(trains(lambda model: torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01)))),
    "an empty group": Case(trains(lambda model: torch.optim.SGD([{"params": []}, {"params": model.parameters()}], lr=0.1))),
}
