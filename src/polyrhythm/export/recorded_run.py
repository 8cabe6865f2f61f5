"""The trained model of what a run leaves behind: the directory of its record, or a checkpoint."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from polyrhythm.core.checkpoints.checkpoint import NAME
from polyrhythm.core.checkpoints.manifest import MANIFEST
from polyrhythm.core.checkpoints.store import find as find_checkpoint
from polyrhythm.core.job_files.script import arguments
from polyrhythm.core.job_files.settings import Train, settings_of, with_settings
from polyrhythm.core.kernel.names import FIRST
from polyrhythm.core.records.directory import RUN, WEIGHTS, path_of, reason
from polyrhythm.core.records.load import load
from polyrhythm.core.tensors import Layout
from polyrhythm.core.typed_files import instead
from polyrhythm.errors import ExportError
from polyrhythm.export.captured import SAMPLES, TrainedModel, captured, filled, model_of
from polyrhythm.workloads.load import file_of, is_bundled, load_workload

_PROGRAM = "program"
"""The setting in records of `simulate`, where those of a training function have its JOB."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """The JOB that made a run: its name, the arguments of its own, and settings as values or as text."""

    job: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @contextmanager
    def opened(self) -> Iterator[Train]:
        """The training function, which finds its arguments in sys.argv meanwhile. Raises PolyrhythmErrors for what cannot be used."""
        if is_bundled(self.job):
            yield self._train()
            return
        with arguments(str(file_of(self.job) or self.job.rpartition(":")[0]), self.arguments):
            yield self._train()

    def _train(self) -> Train:
        return with_settings(load_workload(self.job), self.job, self.settings)


def trained_model(
    run: str | Path,
    *,
    job: str | None = None,
    settings: Mapping[str, Any] | None = None,
    model: str | None = None,
    samples: int = SAMPLES,
) -> TrainedModel:
    """The model of the run that left `run`: the directory of its record (`--out`, `Run.save`), or of a checkpoint, or of several.

    The model's code is the JOB's, which is begun to see it and inputs of it: by default the JOB that the record names, with its settings. A
    checkpoint names none. Of several models `model` names one. Raises ExportError for what has no weights, or no JOB that is known.
    """
    path = path_of(run)
    made_by = recorded_job(path, job, settings or {})
    with made_by.opened() as train:
        if _is_record(path):
            return model_of(train, _recorded_weights(path), model=model, samples=samples)
        models, chosen = captured(train, model, samples)
        return TrainedModel(_from_checkpoint(path, chosen.model, models.index(chosen)), chosen.samples)


def recorded_job(path: Path, job: str | None, settings: Mapping[str, Any]) -> RecordedJob:
    """The JOB that was given, or that the record in `path` names, with the settings that were given and those of the record.

    Raises ExportError where neither names one.
    """
    kept = load(path).settings if _is_record(path) else {}
    name = job or kept.get("job")
    if name is None:
        if _PROGRAM in kept:
            raise ExportError(
                f"{path} is the record of a program of torch.distributed, {kept[_PROGRAM]}, which keeps no weights: let the program "
                "save its model, or write it from there with pr.export.write_model(model, example, folder)."
            )
        what = "the record of a run of pr.run" if kept else "a checkpoint"
        raise ExportError(
            f"{path} is {what}, which does not name its JOB: give --job train.py or job=..., or write the model from Python with "
            "pr.export.write_model(model, example, folder)."
        )
    own = tuple(shlex.split(kept.get("arguments", "")))
    plain = RecordedJob(name, own)
    with plain.opened() as train:
        known = settings_of(train)
    recorded = {each: value for each, value in _settings(kept.get("train", "")).items() if each in known}
    return RecordedJob(name, own, {**recorded, **settings})


def _is_record(path: Path) -> bool:
    """True for the directory of a record. Raises ExportError for what is neither that nor a checkpoint."""
    if (path / RUN).is_file():
        return True
    checkpoints = path.is_dir() and ((path / MANIFEST).is_file() or any(NAME.fullmatch(each.name) for each in path.iterdir()))
    if not checkpoints:
        near = min((found.parent for found in path.glob(f"*/seed-*/{RUN}")), default=None) if path.is_dir() else None
        hint = f" One run of the comparison in it is {near}." if near is not None else ""
        raise ExportError(
            f"{path} is neither the record of a run nor a checkpoint: "
            f"{instead(path, 'give what run --out, Run.save or --checkpoint wrote.')}{hint}"
        )
    return False


def _recorded_weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path / WEIGHTS)
    except FileNotFoundError:
        raise ExportError(
            f"{path} has no weights: the run failed, was broken off, or is still under way. Give one that has ended."
        ) from None
    except (OSError, SafetensorError) as problem:
        raise ExportError(f"The weights in {path} cannot be read: {reason(problem)}. Run it again.") from None


def _settings(shown: str) -> dict[str, Any]:
    """The settings of a training function as a record shows it, "DigitsCnn(epochs=3)"; none of values that are not plain."""
    try:
        call = ast.parse(shown, mode="eval").body
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, Any] = {}
    for keyword in call.keywords if isinstance(call, ast.Call) else ():
        try:
            found[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except ValueError:
            continue
    return found


def _from_checkpoint(path: Path, model: nn.Module, number: int) -> nn.Module:
    """`model` with the weights that worker 0 had in the checkpoint, as the model attached as that number."""
    checkpoint = find_checkpoint(path)
    replicas = checkpoint.read(FIRST)["replicas"]
    if number >= len(replicas):
        raise ExportError(f"{checkpoint.path} has {len(replicas)} models, fewer than the JOB attaches: give the JOB that wrote it.")
    found: dict[str, Tensor] = {}
    for part in replicas[number]["parts"]:
        layout = Layout(tuple(part["layout"]), tuple(tuple(shape) for shape in part["layout"].values()))
        found |= layout.named(part["model"]["weights"])
    own = (*model.named_parameters(), *model.named_buffers())
    others = [name for name, tensor in own if name not in found and tensor.numel()]
    if len(others) != len(replicas[number]["others"]):
        raise ExportError(
            f"{checkpoint.path} holds other parameters than the JOB's model has: it is another JOB's, or of a model in parts, of which "
            "each worker has its own. Give the JOB that wrote it, or the record of the whole run."
        )
    found |= dict(zip(others, replicas[number]["others"], strict=True))
    state = model.state_dict()
    kept = {state[name].data_ptr(): tensor for name, tensor in found.items() if name in state}
    tied = {name: kept.get(tensor.data_ptr(), tensor) for name, tensor in state.items()}  # two names of one parameter, or nothing to store
    return filled(model, {**tied, **{name: tensor for name, tensor in found.items() if name in state}})
