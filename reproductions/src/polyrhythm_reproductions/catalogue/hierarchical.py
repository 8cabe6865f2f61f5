"""Hierarchical all-reduce: what crosses between sites, and where it is faster than a flat ring and where not."""

from __future__ import annotations

from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network, Site
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.sized import Vectors
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import StepCost, of_machine, step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS, _SITES = 8, 2
_INSIDE, _LINE = 125e6, 2.5e6
_CROSSING = {("east", "west"), ("west", "east")}
_APART = Network.joined(
    "two sites",
    [Site(name, _INSIDE, _INSIDE, 0.0002) for name in ("east", "west")],
    dict.fromkeys(_CROSSING, 0.005),
    dict.fromkeys(_CROSSING, _LINE),
)
_TOGETHER = Network.uniform("100 MB/s, 1 ms", 1e8, 0.001)
_NO_TIME = Profile("no time", (0.0,))
_SMALL, _LARGE = Vectors((64,)), Vectors((1_000_000,))
_RING, _LEADERS = find("allreduce"), find("hierarchical")


def measure(trial: ArmTrial) -> Figures:
    """A training between two sites with each; bytes and seconds of steps that are all exchange."""
    job = Teacher(SgdRecipe(0.1), epochs=trial.size(4, 1), width=64)
    ring, leaders = (
        trial.train(strategy.name, job, strategy, _WORKERS, Simulator(_APART, seed=trial.seed)) for strategy in (_RING, _LEADERS)
    )
    flat, whole, stripes = (_step(strategy, _APART, _LARGE, _WORKERS) for strategy in (_RING, _LEADERS, find("hierarchical", stripes=True)))
    grouped = find("hierarchical", groups=4)
    small, large = ([_step(strategy, _TOGETHER, job, 16).seconds for strategy in (_RING, grouped)] for job in (_SMALL, _LARGE))
    return {
        "difference": abs(ring.final - leaders.final),
        "crossing": _between(flat) / _between(whole),
        "training": ring.seconds / leaders.seconds,
        "large step": flat.seconds / whole.seconds,
        "stripes": stripes.seconds / whole.seconds,
        "small tensors": small[0] / small[1],
        "large tensors": large[1] / large[0],
    }


def _step(strategy: Strategy, network: Network, job: Vectors, workers: int) -> StepCost:
    return step_cost(timed(job, strategy, workers, Simulator(network, _NO_TIME, record_sends=True)), 2, 4)


def _between(step: StepCost) -> float:
    """Bytes that the sites send each other in a step."""
    return sum(sent for sent, _ in of_machine(step.links, lambda actor: rank_of(actor) * _SITES // _WORKERS).values())


REPRODUCTION = Reproduction(
    name="hierarchical",
    systems=("hierarchical",),
    paper="Sergeev, Del Balso: Horovod (2018, arXiv:1802.05799), its hierarchical all-reduce; Jia et al.: Highly Scalable Deep Learning "
    "Training System with Mixed-Precision (2018, arXiv:1807.11205)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, 8 workers in batches of 16 at two "
    "sites of four, "
    "SGD at 0.1; 1 Gbit/s and 0.2 ms inside, 20 Mbit/s and 5 ms between, in virtual time. Steps that are all exchange: of 1,000,000 "
    "numbers there, and of 64 and 1,000,000 numbers on 16 workers in groups of four on equal lines of 100 MB/s and 1 ms. The papers: "
    "hosts of 8 GPUs, up to 2,048 of them.",
    baseline=_RING.name,
    notes="Bytes and seconds of steps are of exchanges without a training. Groups add up directly, leaders over a ring. "
    "A step of the perceptron takes 24.7 ms over a flat ring and 21.9 ms with leaders: of 25 kB the latencies of the line, which both wait "
    "for, are a large part.",
    measure=measure,
    claims=(
        Claim(
            paper="It computes what a flat all-reduce does.",
            ours="difference of the losses on held-out points to a flat ring",
            figure="difference",
            unit="nats",
            most=1e-3,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Between groups go 2 (G - 1) / G of the model, where a flat ring sends 2 (P - 1) / P: 1.75 times as much with 8 "
            "workers in 2.",
            ours="bytes that two sites of four workers send each other with a flat ring over those with leaders",
            figure="crossing",
            unit="ratio",
            least=1.72,
            most=1.78,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Where lines between groups are slower than inside of them it is faster than a flat ring.",
            ours="seconds of a training over a flat ring over those with leaders, two sites",
            figure="training",
            unit="x",
            least=1.3,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="So it is for large models, by the bytes that cross.",
            ours="seconds of a step of 1,000,000 numbers over a flat ring over those with leaders, two sites",
            figure="large step",
            unit="x",
            least=1.3,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Every member of a group may exchange a part of the sum.",
            ours="seconds of that step with stripes over those with leaders alone",
            figure="stripes",
            unit="x",
            most=1.05,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="On equal lines small tensors are exchanged faster, in fewer latencies (Jia et al.).",
            ours="seconds of a step of 64 numbers over a flat ring over those in groups of four, 16 workers",
            figure="small tensors",
            unit="x",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="For large tensors a flat ring is faster there (Jia et al.).",
            ours="seconds of a step of 1,000,000 numbers in groups of four over those over a flat ring, 16 workers",
            figure="large tensors",
            unit="x",
            least=1.1,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(paper="ImageNet is trained in minutes on 2,048 GPUs (Jia et al.).", untestable="There are no GPUs here."),
    ),
)
