"""Pathways: one controller that dispatches before results are there, and a scheduler that gives all devices one order."""

from __future__ import annotations

from polyrhythm.hardware.network import Network
from polyrhythm_reproductions.pathways import (
    DispatchChain,
    IslandOrder,
    NoOrder,
    ParallelDispatch,
    SequentialDispatch,
    WithoutController,
    chain_seconds,
    race_deadlocks,
)
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_NETWORK = Network.uniform("10 Gbit/s, 50 us", "10 Gbit/s", "50 us")
_TINY, _LARGE = DispatchChain(64, 8, 10e-6, 100e-6), DispatchChain(64, 8, 10e-3, 100e-6)
_RACES = 100


def measure(trial: ArmTrial) -> Figures:
    """Virtual seconds of chains of operations, and races of two clients."""
    tiny, large = (
        {way: chain_seconds(chain, way, _NETWORK) for way in (SequentialDispatch(), ParallelDispatch(), WithoutController())}
        for chain in (_TINY, _LARGE)
    )
    races = range(trial.seed * _RACES, trial.seed * _RACES + trial.size(_RACES, 20))
    return {
        "tiny": tiny[SequentialDispatch()] / tiny[ParallelDispatch()],
        "large": large[WithoutController()] / large[ParallelDispatch()],
        "ordered": float(sum(race_deadlocks(IslandOrder(), _NETWORK, seed) for seed in races)),
        "not ordered": float(sum(race_deadlocks(NoOrder(), _NETWORK, seed) for seed in races)),
    }


REPRODUCTION = Reproduction(
    name="pathways",
    systems=(),
    paper="Barham et al.: Pathways: Asynchronous Distributed Dataflow for ML (MLSys 2022, arXiv:2203.12533)",
    setting="A chain of 64 operations around 8 hosts, each of 10 us (tiny) or 10 ms (large) on its device, after 100 us of work of its "
    "host; lines of 50 us. Races of two clients with three collective operations each on the same four devices, 100 in each seed.",
    measure=measure,
    notes="Operations sleep in virtual time: seconds are of dispatch, messages and queues, not of a training. Devices do what is in their "
    "queue in that order, and cannot be interrupted, which is what makes an order necessary.",
    claims=(
        Claim(
            paper="Dispatch in parallel is faster than one after another where operations are short.",
            ours="seconds of the chain of tiny operations with sequential over those with parallel dispatch",
            figure="tiny",
            unit="x",
            least=2.0,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="A single controller does not cost throughput, compared with SPMD, where operations are long.",
            ours="seconds of the chain of large operations without a controller over those with one that dispatches in parallel",
            figure="large",
            unit="ratio",
            least=0.9,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Gang scheduling, by one scheduler for an island, prevents deadlocks.",
            ours="races, of 100, that end in a deadlock with the scheduler",
            figure="ordered",
            unit="trials",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Without it programs that share devices can deadlock.",
            ours="races, of 100, that end in a deadlock without it",
            figure="not ordered",
            unit="trials",
            least=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(paper="100 % of SPMD's utilisation on 2,048 TPUs.", untestable="There are no TPUs here."),
    ),
)
