"""What factors and gradients of a layer cost, and where one becomes the other."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.parameters import CheaperAsFactors
from polyrhythm.parameters.factor_costs import as_factors, crossover, factors_to_server, gradients_to_servers

GRID = [(outs, ins, workers, servers) for outs, ins in ((96, 64), (1000, 4096), (8, 300)) for workers in (2, 4, 9) for servers in (1, 4, 8)]


@pytest.mark.parametrize(("outs", "ins", "workers", "servers"), GRID)
def test_the_rule_of_poseidon_is_the_comparison_of_the_costs(outs: int, ins: int, workers: int, servers: int) -> None:
    with torch.device("meta"):
        layer = nn.Linear(ins, outs)
    candidate = ParameterInfo("fc.weight", layer.weight, layer, "weight", workers)
    at = crossover(outs, ins, workers, servers)
    for batch in {1, int(at), int(at) + 1, 4 * int(at) + 1} - {0}:
        cheaper = as_factors(outs, ins, batch, workers) <= gradients_to_servers(outs, ins, workers, servers)
        assert CheaperAsFactors(batch, servers).takes(candidate) == cheaper == (batch <= at)


def test_the_layer_of_the_paper_costs_as_much_either_way_for_512_samples() -> None:
    assert as_factors(4096, 4096, batch=32, workers=8) == 2 * 32 * 7 * 8192
    assert crossover(4096, 4096, 8, 8) == 512
    assert as_factors(4096, 4096, 512, 8) == gradients_to_servers(4096, 4096, 8, 8)


@pytest.mark.parametrize("workers", [4, 8, 32])
def test_from_four_workers_on_factors_to_all_burden_no_machine_as_factors_to_a_server_do(workers: int) -> None:
    """Of the fully connected layers of the paper, for its batch of 32."""
    for outs, ins in ((4096, 25088), (4096, 4096), (1000, 4096)):
        assert as_factors(outs, ins, 32, workers) < factors_to_server(outs, ins, 32, workers) / 10
