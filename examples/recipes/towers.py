"""Towers on devices that may not be there: a log of what is placed where, and what takes the place of a device that is missing.

After J. Hui's page on TensorFlow's GPUs (2017): variables are on one device, each tower computes the gradient of its part of the batch on
its own, and their mean is applied. A device that this machine has not is replaced by the CPU ("soft placement"), and the log says so.

    python examples/recipes/towers.py
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def present() -> set[str]:
    """The devices of this machine."""
    return {"cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))}


class Placement:
    """Gives towers the devices that they ask for, where they are in `devices`, and otherwise the CPU."""

    def __init__(self, devices: set[str]) -> None:
        self.devices, self.log = devices, list[str]()

    def of(self, name: str, wanted: str) -> str:
        found = wanted if wanted in self.devices else "cpu"
        self.log.append(f"{name}: {found}" + ("" if found == wanted else f" ({wanted} is not here)"))
        return found


def step(model: nn.Module, x: Tensor, y: Tensor, wanted: list[str], placement: Placement) -> None:
    """Set the gradients of `model` to those of the whole batch, by one tower on each of the `wanted` devices."""
    model.zero_grad()
    for number, (part, labels) in enumerate(zip(x.tensor_split(len(wanted)), y.tensor_split(len(wanted)), strict=True)):
        device = placement.of(f"tower {number}", wanted[number])
        tower = copy.deepcopy(model).to(device)
        loss = F.cross_entropy(tower(part.to(device)), labels.to(device)) * (len(part) / len(x))
        gradients = torch.autograd.grad(loss, list(tower.parameters()))
        for weight, gradient in zip(model.parameters(), gradients, strict=True):
            weight.grad = gradient.cpu() if weight.grad is None else weight.grad + gradient.cpu()


def main() -> None:
    torch.manual_seed(0)
    model, placement = nn.Linear(4, 3), Placement(present())
    placement.of("variables", "cpu")
    x = torch.randn(10, 4)
    step(model, x, x[:, :3].argmax(1), ["cuda:0", "cuda:1", "cpu"], placement)
    print("\n".join(placement.log))


if __name__ == "__main__":
    main()
