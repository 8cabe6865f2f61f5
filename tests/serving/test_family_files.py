"""Families of a MODELS file: measured, planned or declined with figures, simulated, and served with the outputs of each variant alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sites import EXACT, machine_of, machines, slot_of, straight
from virtual_loop import in_virtual_time

from polyrhythm.errors import CompositionError
from polyrhythm.serving import DutyTurns, FamilyMembers, LatencyProfile, Ok, PoissonArrivals, Rejected, ServingSession, plan_families
from polyrhythm.serving.server.family_served import measured_family
from polyrhythm.serving.server.gateway import Gateway, GatewayRules
from polyrhythm.serving.server.model_host import ModelHost
from polyrhythm.serving.server.model_sources import family_source, served_models
from polyrhythm.serving.server.served_model import InputForm, TorchServed
from polyrhythm.serving.server.variant_input import VariantInput
from polyrhythm.serving.serving_files import read_models
from polyrhythm.serving.simulation import OfferedLoad, SimulatedSite, simulate_serving

NAMES = ("cats", "dogs", "birds")
MODELS = """
families = [{name = "photos", variants = ["cats", "dogs", "birds"]}]
"""
MODULE = """
import torch

def made(seed):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.Tanh()]
    torch.manual_seed(seed)
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 3))

def cats():
    return made(1)

def dogs():
    return made(2)

def birds():
    return made(3)

def other():
    torch.manual_seed(9)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Linear(16, 3))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "photos.py").write_text(MODULE)
    models = "".join(f'[[models]]\nname = "{name}"\ntorch = "photos.py:{name}"\ninput = [6]\n' for name in NAMES)
    sessions = "".join(f'[[sessions]]\nname = "of {name}"\nmodel = "{name}"\nslo = "120 ms"\nrate = 120\n' for name in NAMES)
    path = tmp_path / "models.toml"
    path.write_text(MODELS + models + sessions)
    return path


def parts(shared: float) -> list[LatencyProfile]:
    """The profiles of three models of 25 + b milliseconds, of which `shared` is shared, and those of the parts."""
    whole = [straight(name, 0.001, 0.025) for name in NAMES]
    suffixes = [straight(f"photos/{name}", 0.001 * (1 - shared), 0.025 * (1 - shared)) for name in NAMES]
    return [*whole, straight("photos/prefix", 0.001 * shared, 0.025 * shared), *suffixes]


def test_every_answer_of_a_mixed_batch_is_that_of_its_own_variant(file: Path) -> None:
    given = read_models(file)
    served = served_models(given, file.parent, ["gpu"], [])
    alone = {name: served[name, "gpu"].load() for name in NAMES}
    (family,) = given.prefix_families(parts(0.95))
    plan = machine_of(slot_of(family.profiles()[0], 8, 5.0, "photos"))
    draws = np.random.default_rng(3)
    asked = [VariantInput(NAMES[index % 3], draws.normal(size=6).astype(np.float32)) for index in (0, 2, 1, 1, 2, 0, 0, 1, 2, 1)]

    async def main() -> Sequence[object]:
        host = ModelHost(plan.machine, {"photos": served["photos", "gpu"]}, DutyTurns())
        await host.install(plan)
        try:
            return await asyncio.gather(*(host.answer("photos", each, 5.0) for each in asked))
        finally:
            await host.drain()

    for outcome, each in zip(asyncio.run(main()), asked, strict=True):
        assert isinstance(outcome, Ok)
        assert np.abs(outcome.result - alone[each.variant]([each.value])[0]).max() <= 1e-6


def test_a_family_is_profiled_as_its_prefix_and_a_rest_for_each_variant(file: Path) -> None:
    given = read_models(file)
    (entry,) = given.families
    found = measured_family(entry, "gpu", family_source(entry, given, file.parent), (1, 4), 2)
    assert [each.model for each in found] == ["photos/prefix", *(f"photos/{name}" for name in NAMES)]
    assert entry.family(found).profiles()[0].largest == 4


@pytest.mark.parametrize(("shared", "used"), [(0.95, True), (0.1, False)])
def test_a_family_is_used_or_declined_and_its_members_are_simulated_by_their_names(file: Path, shared: float, used: bool) -> None:
    given, site, profiles = read_models(file), tuple(machines(3)), parts(shared)
    chosen = plan_families(given.served(), site, profiles, given.prefix_families(profiles), EXACT)
    (weighed,) = chosen.weighed
    assert weighed.used == used
    assert ("is used: the plan with it costs 1 " if used else "is declined: the plan with it costs") in weighed.sentence
    settled = SimulatedSite(chosen.sessions, site, chosen.profiles, EXACT, members=chosen.members)
    names = [f"of {name}" for name in NAMES]
    played = simulate_serving(settled, OfferedLoad({name: PoissonArrivals(60.0) for name in names}, 5.0, 1), chosen.plan)
    tally = played.tally()
    assert sorted(tally) == sorted(names)
    assert min(each.good_rate for each in tally.values()) > 0.95


def test_the_burst_of_a_member_costs_no_other_of_its_family() -> None:
    own = tuple(ServingSession(f"of {name}", name, 0.12, 40.0) for name in NAMES)
    family = ServingSession("photos", "photos", 0.12, 120.0)
    members, profile = FamilyMembers({"photos": own}), straight("photos", 0.001, 0.025)
    chosen = plan_families([family], machines(1), [profile], [], EXACT)
    seen: list[object] = []

    async def send(machine: str, session: str, payload: object, patience: float) -> Ok:
        seen.append((session, payload.variant if isinstance(payload, VariantInput) else payload))
        return Ok(0.0)

    async def main() -> tuple[int, int, dict[str, int]]:
        gateway = Gateway([family], send, GatewayRules(), members)
        gateway.follow(chosen.plan)
        burst = [await gateway.answer("of cats", np.zeros(6)) for _ in range(200)]
        others = [await gateway.answer("of dogs", np.zeros(6)) for _ in range(20)]
        arrived = dict(gateway.beacon(0.0).arrived)
        return sum(isinstance(each, Rejected) for each in burst), sum(isinstance(each, Ok) for each in others), arrived

    refused, good, arrived = in_virtual_time(main())
    assert (refused > 100, good, arrived) == (True, 20, {"photos": 220})
    assert set(seen) == {("photos", "cats"), ("photos", "dogs")}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"birds"]}', '"fish"]}', "'fish' is no model"),
        ('"dogs", "birds"]}', '"cats"]}', "two variants or more"),
        ('name = "photos"', 'name = "cats"', "a model has its name"),
        ('torch = "photos.py:birds"', "emulated = true", "its variants differ in source"),
        ('torch = "photos.py:birds"', 'onnx = "birds.onnx"', "the layers of ONNX files are not compared"),
    ],
)
def test_a_family_that_cannot_be_one_is_a_sentence(file: Path, old: str, new: str, said: str) -> None:
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(CompositionError, match=said):
        read_models(file)


def test_models_that_share_nothing_and_families_without_profiles_are_sentences(file: Path) -> None:
    given = read_models(file)
    with pytest.raises(CompositionError, match="has no profile 'photos/prefix'"):
        given.prefix_families([straight(name, 0.001, 0.025) for name in NAMES])
    file.write_text(file.read_text().replace("photos.py:birds", "photos.py:other"))
    with pytest.raises(CompositionError, match="first layers of the models of the family 'photos' differ"):
        served_models(read_models(file), file.parent, ["gpu"], [])["photos", "gpu"].load()
    family = family_source(given.families[0], given, file.parent)
    lone = replace(family, variants={**family.variants, "cats": TorchServed(lambda: torch.nn.Linear(6, 3), InputForm((6,)))})
    with pytest.raises(CompositionError, match=r"is no nn\.Sequential"):
        lone.load()


def test_emulated_variants_take_the_time_of_the_family_and_return_their_inputs(file: Path) -> None:
    text = file.read_text()
    for name in NAMES:
        text = text.replace(f'torch = "photos.py:{name}"', "emulated = true")
    file.write_text(text)
    served = served_models(read_models(file), file.parent, ["gpu"], parts(0.95))
    given = VariantInput("dogs", np.ones(6, np.float32))
    assert served["photos", "gpu"].load()([given])[0] is given.value


def test_a_plan_file_says_by_its_sessions_that_a_family_is_used(file: Path) -> None:
    profiles = parts(0.95)
    given = read_models(file)
    chosen = plan_families(given.served(), machines(1), profiles, given.prefix_families(profiles), EXACT)
    assert list(chosen.plan.routes) == ["photos"]
    assert json.dumps(chosen.members.families(), sort_keys=True) == json.dumps({f"of {name}": "photos" for name in sorted(NAMES)})
