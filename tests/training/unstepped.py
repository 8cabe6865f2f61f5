"""Ways to train past the attached `optimizer.step()`, and others that only look so."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data, network

from .scenes import Train, sgd
from .user_cases import OWN_LIMITS, Case

Optimizer = torch.optim.Optimizer


class Sam(Optimizer):
    """Foret et al., 2021, as it is mostly written: step by step with two methods, or with a closure."""

    def __init__(self, params: Any, base: Callable[..., Optimizer], rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, {"rho": rho, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        """Climb to where the loss is highest nearby."""
        for each in self._trained():
            self.state[each]["before"] = each.clone()
            assert each.grad is not None
            each.add_(each.grad, alpha=self.defaults["rho"])

    @torch.no_grad()
    def second_step(self) -> None:
        """Go back, and step by the gradient that was found there."""
        for each in self._trained():
            each.copy_(self.state[each]["before"])
        self.base_optimizer.step()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Both."""
        assert closure is not None, "Sharpness Aware Minimization requires closure, but it was not provided"
        self.first_step()
        torch.enable_grad()(closure)()
        self.second_step()

    def _trained(self) -> Iterator[Tensor]:
        return (each for group in self.param_groups for each in group["params"] if each.grad is not None)


class Lookahead(Optimizer):
    """Zhang et al., 2019, as a wrapper that shares the groups of its base."""

    def __init__(self, base: Optimizer, every: int = 2, share: float = 0.5) -> None:
        super().__init__(base.param_groups, {})
        self.base, self.every, self.share, self.steps = base, every, share, 0
        self.param_groups = base.param_groups
        self.slow = [each.detach().clone() for group in self.param_groups for each in group["params"]]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        """A step of the base; each `every`-th time the slow weights follow."""
        loss = self.base.step(closure)
        self.steps += 1
        if self.steps % self.every == 0:
            for slow, fast in zip(self.slow, (p for group in self.param_groups for p in group["params"]), strict=True):
                slow.lerp_(fast, self.share)
                fast.copy_(slow)
        return loss


def gradient(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss, and its gradient in the parameters."""
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss


def sam(attached: Callable[[Sam], Optimizer]) -> Train:
    """Trains with the two methods of SAM, of which one optimizer is attached."""

    def train(worker: Any) -> None:
        model = network()
        optimizer = Sam(model.parameters(), torch.optim.SGD, lr=0.1)
        worker.attach(model, attached(optimizer))
        for x, y in worker.batches(data(), batch_size=8):
            gradient(model, x, y)
            optimizer.first_step()
            gradient(model, x, y)
            optimizer.second_step()

    return train


def wrapper_attached(worker: Any) -> None:
    """The base of a wrapper is stepped."""
    model = network()
    base = sgd(model)
    worker.attach(model, Lookahead(base))
    for x, y in worker.batches(data(), batch_size=8):
        gradient(model, x, y)
        base.step()


def by_hand(write: Callable[[Tensor], None]) -> Train:
    """Updates are written by hand."""

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            gradient(model, x, y)
            for parameter in model.parameters():
                write(parameter)

    return train


@torch.no_grad()
def subtract(parameter: Tensor) -> None:
    """As tutorials do."""
    assert parameter.grad is not None
    parameter -= 0.1 * parameter.grad


def subtract_data(parameter: Tensor) -> None:
    """As older tutorials do."""
    assert parameter.grad is not None
    parameter.data -= 0.1 * parameter.grad


def replace_data(parameter: Tensor) -> None:
    """As some optimizers do."""
    assert parameter.grad is not None
    parameter.data = parameter.data - 0.1 * parameter.grad


def old_step(worker: Any) -> None:
    """The step that the optimizer had before it was attached."""
    model = network()
    optimizer = sgd(model)
    step = optimizer.step
    worker.attach(model, optimizer)
    for x, y in worker.batches(data(), batch_size=8):
        gradient(model, x, y)
        step()


def another(worker: Any) -> None:
    """Another optimizer of the same parameters."""
    model = network()
    worker.attach(model, sgd(model))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for x, y in worker.batches(data(), batch_size=8):
        gradient(model, x, y)
        optimizer.step()


def both(worker: Any) -> None:
    """Another optimizer of the same parameters, besides the one that is attached."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    other = torch.optim.Adam(model.parameters(), lr=0.1)
    for x, y in worker.batches(data(), batch_size=8):
        gradient(model, x, y)
        optimizer.step()
        other.step()


def another_model(worker: Any) -> None:
    """A copy of the model is trained."""
    model = network()
    worker.attach(model, sgd(model))
    mine = copy.deepcopy(model)
    optimizer = sgd(mine)
    for x, y in worker.batches(data(), batch_size=8):
        gradient(mine, x, y)
        optimizer.step()


def own_batches(report: Callable[[Any, Tensor], None], write: Callable[[Tensor], None] = subtract) -> Train:
    """Batches are the function's own, and updates by hand."""

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        x, y = data()
        for start in range(0, 32, 8):
            loss = gradient(model, x[start : start + 8], y[start : start + 8])
            for parameter in model.parameters():
                write(parameter)
            report(worker, loss)

    return train


def silent(worker: Any, loss: Tensor) -> None:
    """Says nothing of its training."""


def reports(worker: Any, loss: Tensor) -> None:
    """Reports the loss."""
    worker.report(loss=loss)


def counts(worker: Any, loss: Tensor) -> None:
    """Counts samples."""
    worker.count(8)


@contextmanager
def swapped(model: nn.Module) -> Iterator[None]:
    """Other weights for a while, as for an evaluation of averaged ones."""
    kept = [each.detach().clone() for each in model.parameters()]
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(0.5)
    yield
    with torch.no_grad():
        for each, before in zip(model.parameters(), kept, strict=True):
            each.copy_(before)


def looks(worker: Any) -> None:
    """Evaluates on batches, with the weights and with others, and trains with noise that is taken back, once in two batches."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    for x, y in worker.batches(data(), batch_size=8):
        with torch.no_grad():
            worker.report(loss=F.cross_entropy(model(x), y))
    for _ in range(2):
        for number, (x, y) in enumerate(worker.batches(data(), batch_size=8), 1):
            with torch.no_grad():
                noise = [torch.full_like(each, 0.01 * number) for each in model.parameters()]  # taken back up to rounding
                for each, part in zip(model.parameters(), noise, strict=True):
                    each.add_(part)
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for each, part in zip(model.parameters(), noise, strict=True):
                    each.sub_(part)
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
        with swapped(model):
            for x, _ in worker.batches(data(), batch_size=8):
                model(x)


def replaces(worker: Any) -> None:
    """Evaluates averaged weights as they are mostly swapped: `p.data` is another tensor for a while."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    for _ in range(2):
        for x, y in worker.batches(data(), batch_size=8):
            gradient(model, x, y)
            optimizer.step()
        kept = [each.data for each in model.parameters()]
        for each in model.parameters():
            each.data = each.data * 0.5
        for x, _ in worker.batches(data(), batch_size=8):
            model(x)
        for each, before in zip(model.parameters(), kept, strict=True):
            each.data = before


def forgets(report: Callable[[Any, Tensor], None], clears: bool = False) -> Train:
    """The step is forgotten; gradients may be cleared after they were computed."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            if clears:
                optimizer.zero_grad()
            report(worker, loss)

    return train


def forgets_alone(worker: Any) -> None:
    """The step is forgotten in a loop over batches of its own, after which gradients are cleared."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    x, y = data()
    for start in range(0, 32, 8):
        F.cross_entropy(model(x[start : start + 8]), y[start : start + 8]).backward()
        optimizer.zero_grad()


def functional(differentiate: Callable[[Callable[[Any], Tensor], Any], Any]) -> Train:
    """Copies of the parameters are trained, in a dict."""

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        copies = {name: each.detach().clone() for name, each in model.named_parameters()}
        for x, y in worker.batches(data(), batch_size=8):

            def loss(copies: Any, x: Tensor = x, y: Tensor = y) -> Tensor:
                return F.cross_entropy(torch.func.functional_call(model, copies, (x,)), y)

            found = differentiate(loss, copies)
            copies = {name: each - 0.1 * found[name] for name, each in copies.items()}

    return train


def by_autograd(loss: Callable[[Any], Tensor], copies: Any) -> Any:
    """Gradients by `torch.autograd.grad`."""
    needing = {name: each.requires_grad_() for name, each in copies.items()}
    found = torch.autograd.grad(loss(needing), list(needing.values()))
    for each in copies.values():
        each.requires_grad_(False)
    return dict(zip(needing, found, strict=True))


def by_func(loss: Callable[[Any], Tensor], copies: Any) -> Any:
    """Gradients by `torch.func.grad`."""
    return torch.func.grad(loss)(copies)


def copy_by_hand(worker: Any) -> None:
    """A copy of the model is trained by hand."""
    model = network()
    worker.attach(model, sgd(model))
    mine = copy.deepcopy(model)
    for x, y in worker.batches(data(), batch_size=8):
        gradient(mine, x, y)
        for parameter in mine.parameters():
            subtract(parameter)


def steps_without_gradients(worker: Any) -> None:
    """A copy is trained by an optimizer of its own, while the attached one steps on no gradients."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    mine = copy.deepcopy(model)
    other = sgd(mine)
    for x, y in worker.batches(data(), batch_size=8):
        gradient(mine, x, y)
        other.step()
        optimizer.step()


OUTSIDE = r"has stepped on parameters of the attached \w+ and is not attached"
UNSTEPPED = r"step\(\) of the attached SGD was not called, so nothing of it is exchanged"
FORGOTTEN = r"Gradients were computed after worker\.attach, but step\(\) of the attached SGD was never called"
NO_GRADIENT = r"Gradients were computed, but no attached parameter had one at any of \d+ steps"
PASSES_OVER = r"written by hand at worker/1, after step \d+"
"""The others' batches of an evaluation are steps where a worker passes steps over, and weights are swapped meanwhile."""
TO_KEEP = rf"({OUTSIDE}|evaluates the model several times per step).*To keep (Sam|Lookahead), attach the SGD that it steps by"

CASES = {
    "SAM's two methods": Case(sam(lambda optimizer: optimizer), TO_KEEP),
    "the base of an attached wrapper is stepped": Case(wrapper_attached, TO_KEEP),
    "an update by hand": Case(by_hand(subtract), UNSTEPPED),
    "an update of p.data": Case(by_hand(subtract_data), UNSTEPPED),
    "an update that replaces p.data": Case(by_hand(replace_data), UNSTEPPED),
    "the step() from before attaching": Case(old_step, r"The step\(\) that SGD had before worker\.attach was called"),
    "another optimizer": Case(another, OUTSIDE),
    "another optimizer too": Case(both, OUTSIDE),
    "a copy of the model": Case(another_model, r"steps were taken on parameters that are not attached, and none on those that are"),
    "own batches, without a word": Case(own_batches(silent), UNSTEPPED),
    "own batches and reports": Case(own_batches(reports), UNSTEPPED),
    "own batches, counted": Case(own_batches(counts), UNSTEPPED),
    "step() forgotten": Case(forgets(silent), FORGOTTEN),
    "step() forgotten, with reports": Case(forgets(reports), FORGOTTEN),
    "step() forgotten, and gradients cleared": Case(forgets(silent, clears=True), FORGOTTEN),
    "step() forgotten, own batches": Case(forgets_alone, FORGOTTEN),
    "copies, by functional_call": Case(functional(by_autograd), FORGOTTEN),
    "copies, by torch.func.grad": Case(functional(by_func), FORGOTTEN),
    "a copy of the model, by hand": Case(copy_by_hand, FORGOTTEN),
    "a copy is trained, and the attached one stepped": Case(steps_without_gradients, NO_GRADIENT),
    "SAM's two methods, its base attached": Case(sam(lambda optimizer: optimizer.base_optimizer)),
    "evaluates, swaps, adds noise, accumulates": Case(looks, limits=(*OWN_LIMITS, PASSES_OVER)),
    "replaces p.data for an evaluation": Case(replaces),
}
