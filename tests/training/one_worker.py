"""What one worker alone does to its model or optimizer after `worker.attach`, and what only looks so."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm import systems
from polyrhythm.core.protocols.controller import ControlledSetting

from .scenes import EVERY_SYSTEM
from .user_cases import Case

RATE_REFUSAL = (
    r"^At (step \d+|the end of training, after step \d+,) worker/\d (has .*, worker/\d has|and worker/\d have) .*: [a-z]"
    r"|The weights were written by hand at worker/\d|got a state of earlier steps by load_state_dict"
)
OWN_RATES = tuple(name for name in EVERY_SYSTEM if ControlledSetting.BATCH in systems.find(name).shuffle.takes)
"""Systems whose workers have batches, and so rates, of their own."""


class Lookahead(torch.optim.Optimizer):
    """Keeps slow weights from when it is made, as user code does; every second step the weights go half way back to them."""

    def __init__(self, base: torch.optim.Optimizer) -> None:
        self.base = base
        self.calls = 0
        super().__init__(base.param_groups, {})
        self.slow = [parameter.detach().clone() for group in self.param_groups for parameter in group["params"]]

    def step(self, closure: Any = None) -> None:
        self.base.step()
        self.calls += 1
        if self.calls % 2 == 0:
            with torch.no_grad():
                for slow, fast in zip(self.slow, (p for group in self.param_groups for p in group["params"]), strict=True):
                    slow.add_(fast - slow, alpha=0.5)
                    fast.copy_(slow)


class Masked(nn.Module):
    """A network with a buffer that no forward pass writes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.register_buffer("mask", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * self.mask


class Deeds:
    """A usual loop of eight steps; a case overrides what is done when."""

    def model(self) -> nn.Module:
        return network()

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05)

    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None: ...

    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None: ...

    def __call__(self, worker: Any) -> None:
        model = self.model()
        model, optimizer = worker.attach(model, self.optimizer(model))
        self.attached(worker, model, optimizer)
        step = 0
        for _ in range(2):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                step += 1
                self.stepped(worker, model, optimizer, step, loss.item())


class RateAtFirst(Deeds):
    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if worker.rank == 0:
            optimizer.param_groups[0]["lr"] = 0.01


class RateUnderWay(Deeds):
    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        if worker.rank == 1 and step == 3:
            optimizer.param_groups[0]["lr"] = 0.01


class OwnPlateau(Deeds):
    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.plateaus = {**getattr(self, "plateaus", {}), worker.rank: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)}

    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        self.plateaus[worker.rank].step(1.0 if worker.rank else 1.0 / step)


class Schedule(Deeds):
    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.schedules = {**getattr(self, "schedules", {}), worker.rank: torch.optim.lr_scheduler.StepLR(optimizer, 2)}

    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        self.schedules[worker.rank].step()


class WeightsAtFirst(Deeds):
    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if worker.rank == 1:
            model.load_state_dict({name: torch.full_like(value, 0.5) for name, value in model.state_dict().items()})


class WeightsUnderWay(Deeds):
    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        if worker.rank == 1 and step == 3:
            with torch.no_grad():
                next(model.parameters()).fill_(0.5)


class StateAtFirst(Deeds):
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if worker.rank == 0:
            state = optimizer.state_dict()
            state["state"] = {k: {"momentum_buffer": torch.ones_like(p)} for k, p in enumerate(model.parameters())}
            optimizer.load_state_dict(state)


class SlowWeights(Deeds):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), network())

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))  # each worker has seeds of its own
        return Lookahead(torch.optim.SGD(model.parameters(), lr=0.05))


class BufferAtFirst(Deeds):
    def model(self) -> nn.Module:
        return Masked()

    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if worker.rank == 0:
            model.get_buffer("mask").fill_(0.5)


class BufferEverywhere(BufferAtFirst):
    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        model.get_buffer("mask").fill_(0.5)


class Normalised(Deeds):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(10, 3), nn.BatchNorm1d(3))


class RateForAWhile(Deeds):
    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        if worker.rank == 1 and step in (4, 6):
            optimizer.param_groups[0]["lr"] = 0.5 if step == 4 else 0.05


class StateUnderWay(Deeds):
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        if worker.rank == 1 and step == 3:
            state = optimizer.state_dict()
            state["state"] = {k: {"momentum_buffer": torch.full_like(p, 9.0)} for k, p in enumerate(model.parameters())}
            optimizer.load_state_dict(state)


class OppositeMomenta(Deeds):
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def attached(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        state = optimizer.state_dict()
        value = 9.0 if worker.rank else 1.0
        state["state"] = {
            k: {"momentum_buffer": torch.linspace(-value, value, p.numel()).view_as(p)} for k, p in enumerate(model.parameters())
        }
        optimizer.load_state_dict(state)


class Frozen(Deeds):
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        next(model.parameters()).requires_grad_(False)
        return torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.05)

    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        if worker.rank == 1 and step == 3:
            with torch.no_grad():
                next(model.parameters()).mul_(100)


class ClippedWhereItBites(Deeds):
    def stepped(self, worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.31, 0.31)


class OwnImplementation(Deeds):
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, foreach=bool(torch.rand(()) < 0.5))


class Estimates(torch.optim.SGD):
    """Keeps what it estimates from its gradients in its groups, as Prodigy does, and has memory to work in."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.05)
        self.param_groups[0]["d"] = 0.0
        self.scratch = torch.empty(2000)
        self.last = torch.tensor(float("nan"))

    def step(self, closure: Any = None) -> None:
        self.param_groups[0]["d"] += sum(float(p.grad.norm()) for p in self.param_groups[0]["params"] if p.grad is not None)
        super().step()


class Estimated(Deeds):
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return Estimates(model.parameters())


CASES = {
    "a rate changed after attach": Case(RateAtFirst(), RATE_REFUSAL),
    "a rate changed after step 3": Case(RateUnderWay(), RATE_REFUSAL),
    "a rate changed for a while": Case(RateForAWhile(), RATE_REFUSAL),
    "a rate by a worker's own loss": Case(OwnPlateau(), RATE_REFUSAL),
    "weights loaded after attach": Case(WeightsAtFirst(), RATE_REFUSAL),
    "weights written after step 3": Case(WeightsUnderWay(), RATE_REFUSAL),
    "frozen weights written after step 3": Case(Frozen(), RATE_REFUSAL),
    "momenta loaded after attach": Case(StateAtFirst(), RATE_REFUSAL),
    "momenta loaded after step 3": Case(StateUnderWay(), RATE_REFUSAL),
    "other momenta of the same sum": Case(OppositeMomenta(), RATE_REFUSAL),
    "slow weights from before attach": Case(SlowWeights(), RATE_REFUSAL),
    "a buffer written after attach": Case(BufferAtFirst(), RATE_REFUSAL),
    "a schedule by steps": Case(Schedule()),
    "a buffer written at every worker": Case(BufferEverywhere()),
    "running statistics": Case(Normalised()),
    "clipped after each step, where it bites": Case(ClippedWhereItBites(), r"^(?!At step|At the end)"),
    "an implementation of the worker's own": Case(OwnImplementation()),
    "an optimizer that estimates its rate": Case(Estimated()),
}
BY_OPTIONS = ("a rate changed after attach", "a rate changed after step 3", "a rate changed for a while", "a rate by a worker's own loss")
