"""Ring all-reduce: what it sends, and which models scale with it."""

from __future__ import annotations

from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.network import Network
from polyrhythm_reproductions.jobs.efficiency import efficiency
from polyrhythm_reproductions.jobs.negotiation import NETWORK
from polyrhythm_reproductions.jobs.shapes import Shaped
from polyrhythm_reproductions.jobs.sized import Vectors
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_NUMEL = 400_000
_RATES = ("2.5 Gbit/s", "10 Gbit/s", "40 Gbit/s")


def measure(trial: ArmTrial) -> Figures:
    """The bytes of one worker of four, and the efficiency of two models of equal arithmetic on three networks."""
    step = step_cost(timed(Vectors((_NUMEL,)), "allreduce", 4, Simulator(network=NETWORK)))
    workers, ratios = trial.size(16, 8), []
    for rate in _RATES:
        on = Simulator(network=Network.uniform(rate, rate, "50 us"))
        conv, mlp = (efficiency(Shaped(kind), "allreduce", workers, on) for kind in ("conv", "mlp"))
        ratios.append(conv / mlp)
    return {"payloads": step.nbytes / 4 / (4 * _NUMEL), "order": min(ratios)}


REPRODUCTION = Reproduction(
    name="allreduce",
    systems=("allreduce",),
    paper="Sergeev, Del Balso: Horovod (2018, arXiv:1802.05799), with the ring of Patarasuk and Yuan (2009)",
    setting=(
        "Two networks of 1.8 MFLOP an image forward: convolutions of 14,000 parameters and a perceptron of 0.9 million, 32 images a "
        "worker, on 1 and on 16 workers (8 where quick), in virtual time on `cpu-core` devices with links of 2.5, 10 and 40 Gbit/s, 50 µs."
    ),
    measure=measure,
    notes=(
        "Steps are timed without arithmetic, whose operations are counted in real ones; computing and communication do not overlap. The "
        "order must hold on a network four times as slow and four times as fast too: the least ratio of the three counts."
    ),
    claims=(
        Claim(
            paper="In a ring each worker sends 2 (P - 1) / P of the gradients, whatever their number: 1.5 of four workers.",
            ours="bytes that one of four workers sends in a step, headers included, over those of its gradients",
            figure="payloads",
            unit="ratio",
            least=1.5,
            most=1.51,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Models with many parameters for their arithmetic scale worse: VGG-16 with 68 %, Inception V3 and ResNet-101 with 90 %.",
            ours="scaling efficiency of the convolutions over that of the perceptron, the least of three networks",
            figure="order",
            unit="ratio",
            least=1.05,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Inception V3 and ResNet-101 scale with an efficiency of 90 % to 128 servers of four GPUs.",
            untestable="There are no such machines here, and virtual ones would only show the numbers that they were given.",
        ),
    ),
)
