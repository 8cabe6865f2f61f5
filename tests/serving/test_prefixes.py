"""Models that share their first layers: found by their parameters, the same outputs, and declined where sharing does not pay."""

from __future__ import annotations

import pytest
import torch
from sites import EXACT, machines, straight
from torch import nn

from polyrhythm.errors import CompositionError
from polyrhythm.serving import LatencyProfile, PrefixFamily, ServingSession, plan_families
from polyrhythm.serving.prefix_models import find_families, shared_prefix


def variants(count: int, shared: int = 2) -> dict[str, nn.Sequential]:
    """Small convolutional models, of which the first layers are the same objects' values in copies."""
    made = {}
    for index in range(count):
        torch.manual_seed(7)
        layers: list[nn.Module] = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 16)][: 2 * shared - 1]
        torch.manual_seed(100 + index)
        made[f"v{index}"] = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(5)).eval()
        made[f"v{index}"](torch.zeros(1, 1, 8, 8))
    return made


def test_the_outputs_of_a_mixed_batch_are_those_of_each_model_alone() -> None:
    models = variants(3)
    shared = shared_prefix(models)
    assert shared is not None
    assert (len(shared.prefix), [len(rest) for rest in shared.suffixes.values()]) == (4, [1, 1, 1])
    inputs, names = torch.randn(10, 1, 8, 8), ["v0", "v2", "v1", "v1", "v0", "v2", "v2", "v0", "v1", "v0"]
    outputs = shared(inputs, names)
    with torch.inference_mode():
        for output, row, name in zip(outputs, inputs, names, strict=True):
            assert (output - models[name](row[None])[0]).abs().max() <= 1e-6


def test_families_are_found_by_the_values_and_the_settings_of_layers() -> None:
    models = variants(2)
    with torch.no_grad():
        changed = variants(1)["v0"]
        changed[0].weight += 1e-3
    torch.manual_seed(7)
    strided = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU()).eval()
    found = find_families({**models, "changed": changed, "strided": strided})
    assert [sorted(each.suffixes) for each in found] == [["v0", "v1"]]
    assert shared_prefix({"v0": models["v0"], "changed": changed}) is None


def test_models_that_train_and_variants_that_are_unknown_are_refused() -> None:
    models = variants(2)
    shared = shared_prefix(models)
    assert shared is not None
    with pytest.raises(CompositionError, match="unknown"):
        shared(torch.zeros(1, 1, 8, 8), ["v9"])
    models["v1"].train()
    with pytest.raises(CompositionError, match=r"set to model.eval\(\)"):
        shared_prefix(models)


def site_with(part: float, count: int = 10, rate: float = 40.0) -> tuple[list[ServingSession], list[LatencyProfile], PrefixFamily]:
    """`count` variants of a model of 25 + b milliseconds, of which `part` is shared."""
    whole = [straight(f"v{index}", 0.001, 0.025) for index in range(count)]
    suffixes = tuple(straight(f"v{index}", 0.001 * (1 - part), 0.025 * (1 - part)) for index in range(count))
    family = PrefixFamily("base", tuple(f"v{index}" for index in range(count)), (straight("base", 0.001 * part, 0.025 * part),), suffixes)
    return [ServingSession(f"s{index}", f"v{index}", 0.12, rate) for index in range(count)], whole, family


@pytest.mark.parametrize(("part", "used"), [(0.99, True), (0.95, True), (0.3, False)])
def test_a_family_is_used_where_it_saves_machines_and_declined_below(part: float, used: bool) -> None:
    sessions, profiles, family = site_with(part)
    chosen = plan_families(sessions, machines(20), profiles, [family], EXACT)
    assert bool(chosen.used) == used
    assert len(chosen.sessions) == (1 if used else 10)


def test_a_family_needs_the_suffix_of_every_variant() -> None:
    with pytest.raises(CompositionError, match="no suffix of 'b' on 'gpu'"):
        PrefixFamily("base", ("a", "b"), (straight("base", 0.001, 0.01),), (straight("a", 0.001, 0.01),))
