"""A plan as the configuration of servers that batch by themselves: Triton Inference Server and BentoML.

They have batch sizes, delays and timeouts, and neither turns nor early drop: what a plan promises holds for them as far as that goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan, ServingPlan

_QUEUED_BATCHES = 4


@dataclass(frozen=True, slots=True)
class ExportedModels:
    """The names of the models of a plan: those that are computed, and the `emulated` ones, which are times alone and have no file."""

    real: tuple[str, ...]
    emulated: tuple[str, ...] = ()

    def stand_ins(self, place: str) -> list[str]:
        """What must be done for the emulated models, whose place another server wants filled; nothing if there are none."""
        if not self.emulated:
            return []
        several, names = len(self.emulated) > 1, ", ".join(self.emulated)
        return [
            f"put what {names} stand{'' if several else 's'} for {place} ({'they are' if several else 'it is'} emulated, without a file)"
        ]


class PlanExport(Protocol):
    """A rule that writes a plan as the configuration of another server."""

    def files(self, made: ServingPlan) -> Mapping[str, str]:
        """The text of each file, by its path from the directory of the export."""

    def next_step(self, directory: Path, models: ExportedModels) -> str:
        """What is to be done with the files in `directory`, in a sentence."""


@dataclass(frozen=True, slots=True)
@checked
class TritonExport:
    """A `config.pbtxt` for each model of each machine, with batch size, delay, timeout and length of the queue.

    `kind` is the kind of instance, such as KIND_GPU. Fields are those of Triton's ModelConfig: `max_batch_size`, `dynamic_batching` with
    `preferred_batch_size`, `max_queue_delay_microseconds` and `default_queue_policy`, and `instance_group`. Models of one GPU run at once
    under Triton unless its rate limiter is on.
    """

    kind: str = "KIND_AUTO"

    def files(self, made: ServingPlan) -> Mapping[str, str]:
        """`MACHINE/MODEL/config.pbtxt` for each."""
        return {
            f"{each.machine.name}/{slot.model}/config.pbtxt": self._config(each, slot) for each in made.machines for slot in _largest(each)
        }

    def next_step(self, directory: Path, models: ExportedModels) -> str:
        """What is to be done with the files in `directory`, in a sentence."""
        copied = "copy each model beside its config.pbtxt as 1/model.onnx (polyrhythm export RUN --to onnx writes one)"
        steps = [*([copied] if models.real else []), *models.stand_ins("beside its config.pbtxt as 1/model.onnx")]
        return f"{', '.join(steps)}, and start on each machine tritonserver --model-repository={directory}/MACHINE"

    def _config(self, each: MachinePlan, slot: DutySlot) -> str:
        return f"""# {each.machine.name}: {slot.rate:.4g} requests per second planned, {slot.budget * 1e3:.4g} ms each
name: "{slot.model}"
max_batch_size: {slot.batch}
dynamic_batching {{
  preferred_batch_size: [ {slot.batch} ]
  max_queue_delay_microseconds: {_delay(each, slot) * 1e6:.0f}
  default_queue_policy {{
    timeout_action: REJECT
    default_timeout_microseconds: {_timeout(slot) * 1e6:.0f}
    allow_timeout_override: true
    max_queue_size: {_QUEUED_BATCHES * slot.batch}
  }}
}}
instance_group [
  {{
    count: 1
    kind: {self.kind}
  }}
]
"""


@dataclass(frozen=True, slots=True)
@checked
class BentoExport:
    """A module for each machine, with the arguments of `bentoml.service` and `bentoml.api` for each of its models.

    `max_latency_ms` cancels requests that would be later, which is closest to early drop.
    """

    def files(self, made: ServingPlan) -> Mapping[str, str]:
        """`MACHINE/batching.py` for each machine."""
        return {f"{each.machine.name}/batching.py": _module(each) for each in made.machines}

    def next_step(self, directory: Path, models: ExportedModels) -> str:
        """What is to be done with the files in `directory`, in a sentence."""
        steps = [
            f"copy {directory}/MACHINE/batching.py beside the service.py of that machine, which decorates each model with "
            "@bentoml.service(**SERVICE[model]) and its method with @bentoml.api(**API[model])",
            *models.stand_ins("in that service.py"),
        ]
        return f"{', '.join(steps)}, and start bentoml serve there"


def _module(each: MachinePlan) -> str:
    services = {slot.model: {"traffic": {"timeout": round(slot.budget, 6)}, "workers": 1} for slot in _largest(each)}
    apis = {
        slot.model: {"batchable": True, "max_batch_size": slot.batch, "max_latency_ms": max(1, round(slot.budget * 1e3))}
        for slot in _largest(each)
    }
    return (
        f'"""Batching on {each.machine.name}: @bentoml.service(**SERVICE[name]), and @bentoml.api(**API[name]) on its method."""\n\n'
        f"SERVICE = {_dictionary(services)}\n\nAPI = {_dictionary(apis)}\n"
    )


def _dictionary(values: Mapping[str, Mapping[str, object]]) -> str:
    return "{\n" + "".join(f"    {name!r}: {value!r},\n" for name, value in values.items()) + "}"


def _largest(each: MachinePlan) -> list[DutySlot]:
    """One slot for each model: that with the largest batch, in the order of the plan."""
    chosen: dict[str, DutySlot] = {}
    for slot in each.slots:
        if slot.model not in chosen or slot.batch > chosen[slot.model].batch:
            chosen[slot.model] = slot
    return list(chosen.values())


def _delay(each: MachinePlan, slot: DutySlot) -> float:
    """The seconds that a batch may wait to be full, if all other models run before it."""
    others = sum(other.seconds for other in each.slots if other.session != slot.session)
    return max(0.0, min(each.duty, slot.budget - slot.seconds - others))


def _timeout(slot: DutySlot) -> float:
    """The seconds after which a waiting request cannot be answered in time."""
    return max(0.0, slot.budget - slot.seconds)
