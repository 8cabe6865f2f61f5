"""Replicas that must be equal when the run ends, and are not: the distance that rounding can explain.

Workers that exchange gradients get the same gradient and step by themselves. On like processors they stay equal bit for bit; others round
some steps differently, because their vector instructions add in another order.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import flat_broadcast_message
from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import ASIDE, Message
from polyrhythm.core.tensors import Layout, digest
from polyrhythm.errors import DriftWarning

_TOPIC = ASIDE + "final"
_DIGITS = 12
_ROUNDINGS = 8.0
"""Roundings in one step: an element of the weights is rounded once, its change a few times before that."""
_UNDONE = 4
"""Steps whose roundings a change that was undone may leave."""
_MOST = 1e-3
"""The largest relative distance that counts as rounding: a thousandth of the norm can be seen in a loss."""
_REMEDY = (
    "the replicas have drifted apart, and none of them is the result; look for what one worker does between steps and others do not, "
    "such as a separate learning rate, random numbers in the optimizer, or weights that are written by hand."
)


@dataclass(frozen=True, slots=True)
class Drift:
    """The distance of `weights` (numel,) from those of worker 0 after so many `steps`, on processors of the same kind or not."""

    weights: Tensor
    steps: int

    def judge(self, shown: Message) -> Facts:
        """The same fact for all weights whose distance is explained; else the distance."""
        relative = distance(self.weights, shown.tensors[0])
        if relative <= rounding(self.weights.dtype, self.steps) or shown.text != processor(self.weights.device):
            return {"final weights": "those of worker/0 up to rounding"}
        return {"final weights": f"{relative:.1e} of their norm away from those of worker/0 on the same kind of processor"}


def distance(weights: Tensor, others: Tensor) -> float:
    """The Euclidean norm of the difference, relative to that of `others`; infinite where there is none."""
    mine, reference = weights.detach().to("cpu", torch.float64), others.to("cpu", torch.float64)
    apart, norm = (mine - reference).norm().item(), reference.norm().item()
    return apart / norm if math.isfinite(apart) and norm > 0 else math.inf


def rounding(dtype: torch.dtype, steps: int) -> float:
    """The largest distance that rounding differently at each of `steps` explains: independent errors grow as a random walk."""
    return min(_MOST, _ROUNDINGS * torch.finfo(dtype).eps * math.sqrt(steps))


def is_put_back(weights: Tensor, before: Tensor) -> bool:
    """True if the weights differ from `before` only by the rounding of a change that was undone, such as noise added and subtracted."""
    return torch.equal(weights, before) or distance(weights, before) <= rounding(weights.dtype, _UNDONE)


def processor(device: torch.device) -> str:
    """The kind of processor on which a worker steps, which determines its rounding."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"a CPU with {torch.backends.cpu.get_cpu_capability()} instructions" if device.type == "cpu" else device.type


def end_alike(context: WorkerContext, group: Group, layout: Layout, weights: Tensor, steps: int) -> None:
    """Give all workers the weights of worker 0 where their final `weights` (numel,) differ by no more than rounding explains.

    Issues a DriftWarning where they differed; else CompositionError is raised at all workers.
    """
    mine = processor(weights.device)
    held = Message(_TOPIC, text=mine, tensors=(weights.detach().cpu(),))
    facts = {"final weights": digest(layout.named(weights).items())[:_DIGITS]}
    shown = context.align(
        Alignment(facts, held, lambda: flat_broadcast_message(context.port, group, held), Drift(weights, steps).judge, _REMEDY)
    )
    if shown is not None and (relative := distance(weights, shown.tensors[0])) > 0:
        with torch.no_grad():
            weights.copy_(shown.tensors[0])
        warnings.warn(_sentence(context.port.name, group.first, relative, mine, shown.text), DriftWarning, stacklevel=2)


def _sentence(name: str, first: str, relative: float, mine: str, other: str) -> str:
    why = f"{name} has {mine}, {first} has {other}" if mine != other else "as rounding explains"
    return f"{name} ended {relative:.1e} of the weights' norm away from {first} ({why}), and continues with the weights of {first}."
