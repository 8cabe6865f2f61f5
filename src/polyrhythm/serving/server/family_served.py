"""A family of models as a machine serves it: the shared layers run once on a batch that mixes the variants, each rest on its own inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from polyrhythm.errors import CompositionError
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.server.profiling import timed_batches
from polyrhythm.serving.server.served_model import Compute, InputForm, TorchServed, refuse_output, warmed
from polyrhythm.serving.server.variant_input import VariantInput
from polyrhythm.serving.serving_files import FamilyEntry

if TYPE_CHECKING:
    import torch

    from polyrhythm.serving.prefix_models import SharedPrefix


@dataclass(frozen=True, slots=True)
class FamilyServed:
    """The models `variants`, whose inputs are alike, as one model of batches of `VariantInput`."""

    name: str
    variants: Mapping[str, TorchServed]

    @property
    def form(self) -> InputForm:
        """The form of one input."""
        return self._first.form

    def load(self) -> Compute:
        """Make all variants, find what they share, and compute a batch that has one input of each."""
        import torch

        shared, device = self.shared(), self._first.device

        def compute(batch: Sequence[VariantInput]) -> Sequence[np.ndarray]:
            inputs = torch.from_numpy(np.stack([each.value for each in batch])).to(device)
            return [each.cpu().numpy() for each in shared(inputs, [each.variant for each in batch])]

        first = [VariantInput(name, self.form.example()) for name in self.variants]
        for found in warmed(compute, first, f"The family {self.name!r}", self.form):
            refuse_output(str(found.dtype))
        return compute

    def shared(self) -> SharedPrefix:
        """The variants as one prefix and their rests. Raises CompositionError where they share no layer, or are no `nn.Sequential`."""
        import torch

        from polyrhythm.serving.prefix_models import shared_prefix

        made = {name: each.module() for name, each in self.variants.items()}
        plain = {name: each for name, each in made.items() if isinstance(each, torch.nn.Sequential)}
        if other := sorted(set(made) - set(plain)):
            raise CompositionError(f"{other[0]!r} of the family {self.name!r} is no nn.Sequential: the order of its layers must be known.")
        found = shared_prefix(plain)
        if found is None:
            raise CompositionError(
                f"The first layers of the models of the family {self.name!r} differ: give models that were made from one by training "
                "their last layers, or leave the family out."
            )
        return found

    @property
    def _first(self) -> TorchServed:
        return next(iter(self.variants.values()))


@dataclass(frozen=True, slots=True)
class EmulatedFamily:
    """A family that takes the time of its profile, and returns its inputs."""

    profile: LatencyProfile
    form: InputForm

    def load(self) -> Compute:
        """Sleep for as long as loading takes."""
        time.sleep(self.profile.loading)

        def compute(batch: Sequence[VariantInput]) -> Sequence[np.ndarray]:
            time.sleep(self.profile.latency(len(batch)))
            return [each.value for each in batch]

        return compute


@dataclass(frozen=True, slots=True)
class _Part:
    """The shared layers, or what a variant has besides them, to be timed; whichever is loaded first makes all of them."""

    family: FamilyServed
    found: list[SharedPrefix] = field(default_factory=list)
    variant: str = ""

    def part(self) -> torch.nn.Module:
        if not self.found:
            self.found.append(self.family.shared())
        return self.found[0].suffixes[self.variant] if self.variant else self.found[0].prefix


def measured_family(entry: FamilyEntry, kind: str, family: FamilyServed, batches: Sequence[int], repeats: int) -> list[LatencyProfile]:
    """The profiles of the shared layers and of each rest on this machine, under the names that `entry` gives them.

    All variants are loaded with the first, whose bytes and seconds of loading are so those of the whole family.
    """
    import torch

    first, found = next(iter(family.variants.values())), _Part(family)
    prefix = TorchServed(found.part, first.form, first.device, first.threads)
    made = [timed_batches(prefix, batches, repeats).profile(entry.prefix, kind)]
    with torch.inference_mode():
        example = found.part()(torch.from_numpy(first.form.example()[None]).to(first.device))[0].cpu().numpy()
    form = InputForm(example.shape, str(example.dtype))
    for name in entry.variants:
        rest = TorchServed(_Part(family, found.found, name).part, form, first.device, first.threads)
        made.append(timed_batches(rest, batches, repeats).profile(entry.suffix(name), kind))
    return made
