"""The models of a training function, and inputs that they get: a record has weights by name, and not the code that uses them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.work import Train
from polyrhythm.errors import ExportError, PolyrhythmError, unknown
from polyrhythm.export.program import reason
from polyrhythm.systems import find

SAMPLES = 256
"""So many show the ranges of values that int8 needs."""


class _SeenError(PolyrhythmError):
    """Ends the run that is looked at."""


@dataclass(slots=True)
class CapturedModel:
    """A model as the training function attached it, before it was trained, and the inputs of its first forward passes."""

    name: str
    model: nn.Module
    most: int
    inputs: list[tuple[Tensor, ...]] = field(default_factory=list)
    refusal: ExportError | None = None

    def note(self, module: nn.Module, positional: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Keep the inputs of a forward pass. Raises _SeenError when there are enough."""
        bound = inspect.signature(module.forward).bind(*positional, **named)
        given = [value for value in (*bound.args, *bound.kwargs.values()) if value is not None]
        other = next((value for value in given if not isinstance(value, Tensor)), None)
        if other is not None:
            self.refusal = ExportError(
                f"The training function calls the model {self.name} with a {type(other).__name__}, which is no tensor: write it from "
                "Python, with pr.export.write_model(model, example, folder)."
            )
            raise _SeenError
        if not self.inputs or [each.shape[1:] for each in self.inputs[0]] == [each.shape[1:] for each in given]:
            self.inputs.append(tuple(value.detach().cpu().clone() for value in given))
        if sum(len(each[0]) if each and each[0].ndim else 1 for each in self.inputs) >= self.most:
            raise _SeenError

    @property
    def samples(self) -> tuple[Tensor, ...]:
        """The inputs one after another, one tensor for each input."""
        if any(not each.ndim for each in self.inputs[0]):
            return self.inputs[0]
        return tuple(torch.cat(each)[: self.most] for each in zip(*self.inputs, strict=True))


def captured(train: Train, name: str | None = None, most: int = SAMPLES) -> tuple[list[CapturedModel], CapturedModel]:
    """All models that `train` attaches, and the one called `name`, with at most so many inputs. The only one needs no name.

    `train` is begun at one worker, and ended when the inputs are there. Raises ExportError where it attaches no model or calls none of
    them, UnknownNameError for a name that it does not give, and what it raises itself.
    """
    found: dict[int, CapturedModel] = {}

    def watched(worker: Any) -> object:
        own = worker.attach

        def attach(model: Any, optimizer: Any, **named: Any) -> Any:
            if id(model) not in found:
                found[id(model)] = seen = CapturedModel(str(named.get("name") or len(found)), copy.deepcopy(model), most)
                if name is None or seen.name == name:
                    model.register_forward_pre_hook(seen.note, with_kwargs=True)
            return own(model, optimizer, **named)

        worker.attach, worker.evaluate = attach, _no_evaluation
        return train(worker)

    tried = attempt(watched, workers=1, strategy=find("single"), on=Simulator(network=Instant()))
    models = list(found.values())
    if not models:
        if tried.error is not None:
            raise tried.error
        raise ExportError(
            "The training function attaches no model: there is nothing to export. Call worker.attach(model, optimizer) in it."
        )
    names = [each.name for each in models]
    if name is None and len(models) > 1:
        raise ExportError(f"The training function attaches several models, {', '.join(names)}: say which, with --model {names[0]}.")
    if name is not None and name not in names:
        raise unknown("model of the run", name, names)
    chosen = models[names.index(name) if name is not None else 0]
    if chosen.refusal is not None:
        raise chosen.refusal
    if not chosen.inputs:
        if tried.error is not None:
            raise tried.error
        raise ExportError(
            f"The training function never calls the model {chosen.name} itself, so its inputs are not known: write it from Python, with "
            "pr.export.write_model(model, example, folder)."
        )
    return models, chosen


def _no_evaluation(*given: object, **named: object) -> None:
    """Ignore an evaluation: its inputs are not those of training."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model with the weights of a run, in evaluation mode, and `samples` of its inputs, as its training function gave them."""

    model: nn.Module
    samples: tuple[Tensor, ...]


def model_of(train: Train, weights: Mapping[str, Tensor], *, model: str | None = None, samples: int = SAMPLES) -> TrainedModel:
    """The model that `train` attaches, with the `weights` of a run of it, `run.weights`.

    Of several models `model` names one; their weights have its name before theirs. Raises ExportError where weights and model do not
    belong together.
    """
    models, chosen = captured(train, model, samples)
    prefix = f"{chosen.name}." if len(models) > 1 else ""
    own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    return TrainedModel(filled(chosen.model, own), chosen.samples)


def filled(model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """`model` with these weights. Raises ExportError where they are another model's."""
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as problem:
        detail = [line.strip() for line in str(problem).splitlines()[1:]] or [reason(problem)]
        raise ExportError(
            f"The weights of the run are not those of the JOB's model: {detail[0].rstrip('. ')}. Give the JOB and the settings that made "
            "the run, --job and --set."
        ) from problem
    return model.eval()
