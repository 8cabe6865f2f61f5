"""Modules whose products are divided among processes: one start for all members."""

from __future__ import annotations

import pytest
import torch_ranks

from .real_tensor_parallel import LAWS, RANKS, every_law


@pytest.fixture(scope="module")
def broken() -> list[dict[str, str]]:
    """For each rank how each law was broken."""
    return torch_ranks.run(every_law, RANKS)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_on_real_processes(law: str, broken: list[dict[str, str]]) -> None:
    for rank in broken:
        assert not rank[law], rank[law]
