"""Poseidon and Project Adam: linear layers as the factors of their gradients, to everybody or to a server."""

from __future__ import annotations

from dataclasses import replace

import torch

from polyrhythm.codec import SufficientFactors
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.parameters.factor_costs import as_factors, crossover, factors_to_server, gradients_to_servers
from polyrhythm.systems import find
from polyrhythm.topology import Server
from polyrhythm_reproductions.jobs.layers import Layers
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.jobs.whole_numbers import WholeNumbers
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import of_machine, step_cost
from polyrhythm_reproductions.trial import ArmTrial

_SIDE = 128
_WORKERS = 4
_GRID = (8, 11, 16, 23, 32, 45, 64, 91)
_MIXED = ((96, 64), (96, 96), (8, 96))
_BESIDE = Simulator(network=replace(Network.uniform("beside", 1e8, 1e-3), placement=WithWorkers()), record_sends=True)
_FACTORS = Strategy(codec=SufficientFactors(), name="factors")


def measure(trial: ArmTrial) -> Figures:
    """Exactness, bytes, and where the cheaper way changes."""
    job = Teacher(SgdRecipe(0.03, 0.9), epochs=trial.size(2, 1))
    dense, hybrid = (trial.train(name, job, name, _WORKERS).final for name in ("allreduce", "poseidon"))
    return {
        "other elements": float(_other_elements()),
        "difference": abs(dense - hybrid),
        "deviation": 100 * _deviation(),
        "grid steps": float(_from_crossover()),
        "over the cheaper": max(_over_the_cheaper(batch, workers) for batch in (2, 8, 16, 64) for workers in (2, 4)),
        "hot spot": max(_hot_spot(workers) for workers in (4, 8)),
    }


def _other_elements() -> int:
    """The number of weights that differ between training by factors and by gradients, where no sum is rounded."""
    weights = [
        torch.cat([tensor.flatten() for tensor in run(WholeNumbers(), workers=_WORKERS, strategy=each, on=Simulator()).weights.values()])
        for each in (_FACTORS, "allreduce")
    ]
    return int((weights[0] != weights[1]).sum())


def _busiest(strategy: Strategy, shapes: tuple[tuple[int, int], ...], batch: int, workers: int) -> float:
    """Numbers that the busiest machine sends and receives in a step; server k runs on the host of worker k."""
    links = step_cost(lambda steps: run(Layers(shapes, batch, steps), workers=workers, strategy=strategy, on=_BESIDE)).links
    return max(sum(both) for both in of_machine(links, rank_of).values()) / 4


def _square(strategy: Strategy, batch: int, workers: int = _WORKERS) -> float:
    return _busiest(strategy, ((_SIDE, _SIDE),), batch, workers)


def _deviation() -> float:
    """The largest deviation of the counted numbers from table 1, over three ways."""
    batch = 16
    adam = find("project-adam", batch=batch)
    return max(
        abs(counted / expected - 1)
        for counted, expected in (
            (_square(_FACTORS, batch), as_factors(_SIDE, _SIDE, batch, _WORKERS)),
            (_square(Strategy(topology=Server(_WORKERS)), batch), gradients_to_servers(_SIDE, _SIDE, _WORKERS, _WORKERS)),
            (_square(adam, batch), factors_to_server(_SIDE, _SIDE, batch, _WORKERS)),
        )
    )


def _from_crossover() -> int:
    """Steps of the grid between the largest batch that is counted to be cheaper as factors, and the largest by the rule."""
    servers = _square(Strategy(topology=Server(_WORKERS)), 1)
    counted = sum(_square(_FACTORS, batch) <= servers for batch in _GRID)
    ruled = sum(batch <= crossover(_SIDE, _SIDE, _WORKERS, _WORKERS) for batch in _GRID)
    return abs(counted - ruled)


def _over_the_cheaper(batch: int, workers: int) -> float:
    """Bytes of the busiest machine over those of the better of servers and factors alone, for layers of different shapes."""
    hybrid = _busiest(find("poseidon", batch=batch, servers=workers), _MIXED, batch, workers)
    alone = [_busiest(each, _MIXED, batch, workers) for each in (Strategy(topology=Server(workers)), _FACTORS)]
    return hybrid / min(alone)


def _hot_spot(workers: int) -> float:
    """Bytes of the busiest machine, factors to everybody over factors to a server."""
    batch = 8
    return _square(find("poseidon", batch=batch), batch, workers) / _square(find("project-adam", batch=batch), batch, workers)


REPRODUCTION = Reproduction(
    name="factors",
    systems=("poseidon", "project-adam"),
    paper=(
        "Zhang et al.: Poseidon, An Efficient Communication Architecture for Distributed Deep Learning on GPU Clusters (USENIX ATC 2017); "
        "Chilimbi et al.: Project Adam (OSDI 2014)"
    ),
    setting=(
        f"Bytes are counted of linear layers ({_SIDE} by {_SIDE}, and three of different shapes) on 2 to 8 workers, each with a server "
        "beside it; between machines only. Losses are of a perceptron that learns "
        "the classes of a random network, on 4 workers."
    ),
    baseline="allreduce",
    measure=measure,
    claims=(
        Claim(
            paper="The factors of a linear layer's gradient multiply out to the gradient.",
            ours="elements of the weights that differ from training with gradients in any bit, where no sum is rounded",
            figure="other elements",
            unit="elements",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Training is synchronous, whichever way a layer is exchanged: its result stays the same.",
            ours="difference of the losses on held-out points of poseidon and a dense all-reduce",
            figure="difference",
            unit="nats",
            most=1e-3,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper=(
                "A machine sends and receives 2 K (P - 1) (m + n) numbers as factors, 2 m n (P + S - 2) / S by servers, and "
                "Project Adam's server (P - 1) (m n + K m + K n)."
            ),
            ours="largest deviation of the bytes of the busiest machine from those",
            figure="deviation",
            unit="%",
            most=2.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Factors are cheaper up to the batch at which both costs are equal.",
            ours="places in a grid of batches (each √2 times the one before) between where counted bytes and the rule change",
            figure="grid steps",
            unit="1",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Wait-free backpropagation overlaps communication with the backward pass.",
            untestable="Not built: poseidon here exchanges its factors when the backward pass has ended.",
        ),
        Claim(
            paper="Choosing the cheaper way for each layer never costs more than one way for all.",
            ours="bytes of the busiest machine over those of the better of factors alone and servers alone, the worst of eight cases",
            figure="over the cheaper",
            unit="ratio",
            most=1.01,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Project Adam's server gets factors and sends the whole layer to all: it is a hot spot that factors to everybody avoid.",
            ours="bytes of the busiest machine, Poseidon's over Project Adam's, the worst of 4 and 8 workers",
            figure="hot spot",
            unit="ratio",
            most=0.99,
            efficiency=Efficiency.EXACT,
            changed="the bound, from at most 1 to at most 0.99, because a ratio of 1 would not show a hot spot",
        ),
        Claim(paper="VGG19-22K trains 15.5 times as fast on 16 nodes as on one.", untestable="There are no 16 GPUs here."),
    ),
)
