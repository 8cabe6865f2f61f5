"""Layers that models share, found by hashing their parameters, and their execution: the prefix once, then each model's rest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError

_PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True)
class SharedPrefix:
    """The first layers of several models as one, and what is left of each.

    `prefix` and all of `suffixes` are views of the models' own layers: no parameter is copied.
    """

    prefix: nn.Sequential
    suffixes: Mapping[str, nn.Sequential]

    def __call__(self, inputs: Tensor, variants: Sequence[str]) -> list[Tensor]:
        """The outputs in the order of `inputs`, of which each row is for the variant at its place.

        Raises CompositionError for variants that it does not have, and for another number of them than of rows.
        """
        if len(variants) != len(inputs) or not set(variants) <= set(self.suffixes):
            raise CompositionError(
                f"{len(inputs)} inputs came for {len(variants)} variants, {sorted(set(variants) - set(self.suffixes))} of which are "
                f"unknown: give one of {sorted(self.suffixes)} for each input."
            )
        places: dict[str, list[int]] = {}
        for place, name in enumerate(variants):
            places.setdefault(name, []).append(place)
        with torch.inference_mode():
            shared = self.prefix(inputs)
            outputs: dict[int, Tensor] = {}
            for name, own in places.items():
                outputs.update(zip(own, self.suffixes[name](shared[own]), strict=True))
        return [outputs[place] for place in range(len(inputs))]


def layer_hashes(model: nn.Sequential) -> tuple[str, ...]:
    """A hash of each layer: its class, its settings, and the bytes of its parameters and buffers."""
    return tuple(_hash(layer) for layer in model)


def shared_prefix(models: Mapping[str, nn.Sequential]) -> SharedPrefix | None:
    """The longest prefix that all of `models` share; None where their first layers differ already.

    Layers are those of `nn.Sequential`, whose order is known. Raises CompositionError for models that are none, or that train: dropout and
    batch normalization would mix the requests of a batch.
    """
    for name, model in models.items():
        if not isinstance(model, nn.Sequential) or any(module.training for module in model.modules()):
            raise CompositionError(
                f"{name!r} is no nn.Sequential that is set to model.eval(): the order of its layers must be known, and none may train."
            )
    hashes = [layer_hashes(model) for model in models.values()]
    depth = 0
    while all(depth < len(each) for each in hashes) and len({each[depth] for each in hashes}) == 1:
        depth += 1
    if len(models) < 2 or depth == 0:
        return None
    first = next(iter(models.values()))
    rests = {name: nn.Sequential(*list(model)[depth:]).eval() for name, model in models.items()}
    return SharedPrefix(nn.Sequential(*list(first)[:depth]).eval(), rests)


def find_families(models: Mapping[str, nn.Sequential]) -> tuple[SharedPrefix, ...]:
    """The groups of at least two models whose first layers are the same, each with its longest common prefix."""
    groups: dict[str, dict[str, nn.Sequential]] = {}
    for name, model in models.items():
        if len(model):
            groups.setdefault(_hash(model[0]), {})[name] = model
    found = (shared_prefix(group) for group in groups.values())
    return tuple(each for each in found if each is not None)


def _hash(layer: nn.Module) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, module in layer.named_modules():
        settings = sorted((key, value) for key, value in vars(module).items() if isinstance(value, _PLAIN) and key != "training")
        digest.update(repr((name, type(module).__module__, type(module).__qualname__, module.extra_repr(), settings)).encode())
    for name, tensor in layer.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        digest.update(repr((name, plain.dtype, tuple(plain.shape))).encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
