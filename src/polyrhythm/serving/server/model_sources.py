"""The models of a MODELS file as machines load them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyrhythm.core.job_files.script import from_file, from_name
from polyrhythm.core.typed_files import beside
from polyrhythm.errors import CompositionError, did_you_mean, nearest
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.server.family_served import EmulatedFamily, FamilyServed
from polyrhythm.serving.server.served_model import EmulatedModel, InputForm, OnnxServed, ServedModel, TorchServed, onnx_form
from polyrhythm.serving.serving_files import FamilyEntry, ModelEntry, ModelsFile


def served_models(
    models: ModelsFile, folder: Path, kinds: Sequence[str], profiles: Sequence[LatencyProfile]
) -> Mapping[tuple[str, str], ServedModel]:
    """Each model on each kind of machine; files are looked for in `folder`, emulated models take the time of their profile there.

    Raises PolyrhythmErrors for what cannot be served.
    """
    known = {(each.model, each.kind): each for each in profiles}
    found: dict[tuple[str, str], ServedModel] = {}
    for each in models.models:
        own = None if each.emulated else source(each, folder)
        for kind in dict.fromkeys(kinds):
            if own is not None:
                found[each.name, kind] = own
            elif (profile := known.get((each.name, kind))) is not None:
                found[each.name, kind] = EmulatedModel(profile, InputForm(tuple(each.input or ()), each.dtype))
    for family in models.families:
        found |= _family(family, models, folder, kinds, profiles)
    return found


def family_source(entry: FamilyEntry, models: ModelsFile, folder: Path) -> FamilyServed:
    """A family of models of PyTorch. Raises PolyrhythmErrors for one that cannot be found."""
    entries = {each.name: each for each in models.models}
    return FamilyServed(entry.name, {name: _torch(entries[name], folder) for name in entry.variants})


def _family(
    entry: FamilyEntry, models: ModelsFile, folder: Path, kinds: Sequence[str], profiles: Sequence[LatencyProfile]
) -> dict[tuple[str, str], ServedModel]:
    first = next(each for each in models.models if each.name == entry.variants[0])
    if not first.emulated:
        return dict.fromkeys(((entry.name, kind) for kind in kinds), family_source(entry, models, folder))
    form = InputForm(tuple(first.input or ()), first.dtype)
    return {(entry.name, each.kind): EmulatedFamily(each, form) for each in entry.family(profiles).profiles() if each.kind in kinds}


def source(entry: ModelEntry, folder: Path) -> ServedModel:
    """A model of PyTorch or ONNX. Raises PolyrhythmErrors for one that cannot be found."""
    if entry.onnx is not None:
        path = (folder / entry.onnx).resolve()
        if not path.is_file():
            raise _absent(entry.name, path)
        return OnnxServed(path, onnx_form(path), entry.threads)
    return _torch(entry, folder)


def _torch(entry: ModelEntry, folder: Path) -> TorchServed:
    form = InputForm(tuple(entry.input or ()), entry.dtype)
    return TorchServed(_function(entry.name, entry.torch or "", folder), form, entry.device, entry.threads)


def form_of(entry: ModelEntry, folder: Path) -> InputForm:
    """The form of one input of a model, without loading a model of PyTorch."""
    return onnx_form(folder / entry.onnx) if entry.onnx is not None else InputForm(tuple(entry.input or ()), entry.dtype)


def _function(name: str, given: str, folder: Path) -> Callable[[], Any]:
    """The function of "file.py:make" or "package.module:make"."""
    where, _, function = given.rpartition(":")
    if not where or not function.isidentifier():
        raise CompositionError(f"The model {name!r} has torch = {given!r}: write FILE.py:FUNCTION or MODULE:FUNCTION.")
    path = folder / where
    if where.endswith(".py") and not path.is_file():
        raise _absent(name, path)
    module = from_file(path.resolve(), where) if where.endswith(".py") else from_name(where)
    found = getattr(module, function, None)
    if not callable(found):
        meant = did_you_mean(nearest(function, [each for each in vars(module) if not each.startswith("_")]))
        raise CompositionError(
            f"{where} has no function {function!r}, as the model {name!r} says. {meant or 'Define it, returning a torch.nn.Module.'}"
        )
    return found  # type: ignore[no-any-return]


def _absent(name: str, path: Path) -> CompositionError:
    meant = did_you_mean(beside(path)) or "Give its path from the MODELS file on."
    return CompositionError(f"The model {name!r} is in {path}, and there is no such file. {meant}")
