"""Every package has a place in the taxonomy, and every strategy a complete descriptor: its own, or one of the equal ones that are named."""

from __future__ import annotations

import runpy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.core.strategy.descriptor import describe
from polyrhythm.systems import SYSTEMS, find

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def taxonomy() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generate_taxonomy.py"))


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_descriptor_of_a_system_is_complete(name: str) -> None:
    assert all(asdict(describe(find(name))).values())


def test_descriptors_are_unique_but_for_those_that_are_named_with_the_reason(taxonomy: dict[str, Any]) -> None:
    assert taxonomy["equal_systems"]() == set(taxonomy["EQUAL"])
    assert all(taxonomy["EQUAL"].values())


def test_every_package_has_one_pillar_and_some_element(taxonomy: dict[str, Any]) -> None:
    packages = taxonomy["packages"]()
    for table in (taxonomy["PILLARS"], taxonomy["ELEMENTS"]):
        assert {package for names in table.values() for package in names} == set(packages)
    placed = [package for names in taxonomy["PILLARS"].values() for package in names]
    assert len(placed) == len(set(placed))


def test_axes_say_what_is_known_of_systems() -> None:
    scheduling = {name: describe(find(name)).scheduling for name in ("allreduce", "ssp", "downpour", "pipe-sgd", "hybrid-groups")}
    assert list(scheduling.values()) == ["synchronous", "bounded", "asynchronous", "synchronous, 1 late", "synchronous; asynchronous"]
    assert [describe(find(name)).optimization for name in ("mxnet", "diloco", "hogwild")] == ["centralized", "decentralized", "centralized"]
    assert [describe(find(name)).parameters for name in ("mxnet", "diloco", "hogwild")] == [
        "at servers",
        "at every worker",
        "in shared memory",
    ]
    assert describe(find("single")).parallelism == "none"
