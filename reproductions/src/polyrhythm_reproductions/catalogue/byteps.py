"""BytePS: machines that only sum, in the proportions that keep all lines busy; and servers that only add."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.consistency import Asynchronous
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Sum
from polyrhythm.systems import find
from polyrhythm.topology import Server
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher, student
from polyrhythm_reproductions.jobs.whole_numbers import WholeNumbers
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import StepCost, step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS = 8
_SPARES = (0, 4, 8)
_BANDWIDTH = 125e6
_WIDTH = 1400
_PIECES = 40
_BYTES = 4 * sum(parameter.numel() for parameter in student(_WIDTH, 2).parameters())

_EVEN = Simulator(network=Network.uniform("even", _BANDWIDTH, 1e-5), devices=Device("instant", 1e18), record_sends=True)
_UNEVEN = Simulator(
    network=Network.uniform("slow", "50 Mbit/s", "20 ms"), devices=Fleet((Profile("measured", (0.01,)),), (Mixed((1.0, 0.6, 0.2)),))
)
_PARAMETER_SERVER = Strategy(consistency=Asynchronous(), topology=Server(), merge=Sum(), name="parameter server")
_SERVERS = Strategy(topology=Server(4), name="4 parameter servers")
_FEW = 3


def measure(trial: ArmTrial) -> Figures:
    """Times and bytes of a step with 0, 4 and 8 spare machines; then asynchronous training by updates and by gradients."""
    steps = {k: _step(find("byteps", spares=k, piece_bytes=_BYTES // _PIECES)) for k in _SPARES}
    times = {k: found.seconds * _BANDWIDTH / _BYTES for k, found in steps.items()}
    ring, servers = (_step(each).seconds * _BANDWIDTH / _BYTES for each in (find("allreduce"), _SERVERS))
    job = Teacher(SgdRecipe(0.01), epochs=trial.size(2, 1))
    losses = [trial.train(name, job, strategy, _FEW, _UNEVEN).final for name, strategy in _asynchronous().items()]
    return {
        "deviation": 100 * max(_deviation(k, found.links) for k, found in steps.items()),
        **{f"time with {k}": times[k] for k in _SPARES},
        "over all-reduce": ring / times[4],
        "over servers": servers / times[4],
        "other weights": float(_other_weights()),
        "difference": abs(losses[0] - losses[1]),
    }


def _asynchronous() -> dict[str, Strategy]:
    return {"parameter server": _PARAMETER_SERVER, "byteps-async": find("byteps-async")}


def _step(strategy: Strategy) -> StepCost:
    return step_cost(timed(Teacher(width=_WIDTH, batch_size=1), strategy, _WORKERS, _EVEN))


def _deviation(spares: int, links: Mapping[tuple[str, str], float]) -> float:
    """The largest deviation of a link's bytes from the paper's: a part goes there, and the sum of a part of the other's back."""
    whole = _WORKERS**2 + spares * _WORKERS - 2 * spares
    found = []
    for (sender, to), nbytes in links.items():
        parts = 2 * (_WORKERS - 1) if "server" in sender + to else 2 * (_WORKERS - spares)
        if parts:
            found.append(abs(nbytes / (_BYTES * parts / whole) - 1))
    return max(found)


def _other_weights() -> int:
    """The number of steps of all workers at which weights are not those of the parameter server, to the bit."""
    histories = []
    for strategy in _asynchronous().values():
        events = run(WholeNumbers(), workers=_FEW, strategy=strategy, on=_UNEVEN, seed=1).outcome.events
        histories.append([(event.actor, event.metrics) for event in events if isinstance(event, Reported)])
    return sum(one != other for one, other in zip(*histories, strict=True))


REPRODUCTION = Reproduction(
    name="byteps",
    systems=("byteps", "byteps-async"),
    paper="Jiang, Zhu, Lan, Yi, Cui, Guo: A Unified Architecture for Accelerating Distributed DNN Training (BytePS, OSDI 2020)",
    setting=(
        f"A perceptron of {_BYTES // 4:,} parameters on 8 workers with 0, 4 and 8 spare machines, all with lines of 1 Gbit/s each way, in "
        "pieces of a fortieth of the model (the paper: 4 MB of far larger models), on devices whose computing takes no time: so "
        "computing / communication is 0, and a step is what the exchange takes. Asynchronous training is by plain SGD, 3 workers of which "
        "the fastest is five times as fast as the slowest, over 50 Mbit/s and 20 ms."
    ),
    notes=(
        "Steps are timed without arithmetic: only the exchange is run, and no quality belongs to these seconds. The parameter "
        "servers take each worker's whole share before they answer; in "
        "pieces, which went both ways at once, a step could take P M / (S B), 2 M / B, and no less. "
        "A first quick run had a model of 379,210 parameters, of whose pieces headers were 3 %, and 1.35 M / B with 4 spares; with 2 "
        "million parameters bytes are those of the paper, and the time was 1.65 M / B in the third and fourth step. That was a flaw of "
        "ours, since mended: pieces of the next step overtook those that others still waited for."
    ),
    baseline="parameter server",
    measure=measure,
    claims=(
        Claim(
            paper="A summation machine sums 2 (n - 1) / (n² + k n - 2 k) of the model, and a worker's machine (n - k) / (n² + k n - 2 k).",
            ours="largest deviation of the bytes over any link from those shares, with 0, 4 and 8 spares",
            figure="deviation",
            unit="%",
            most=2.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        *(
            Claim(
                paper=f"A step takes 2 n (n - 1) M / ((n² + k n - 2 k) B), which is {expected:.2f} M / B for n = 8 and k = {k}.",
                ours=f"time of a step with {k} spares over M / B",
                figure=f"time with {k}",
                unit="ratio",
                least=0.95 * expected,
                most=1.05 * expected,
                efficiency=Efficiency.SYSTEM,
                kind=ClaimKind.VALUE,
            )
            for k, expected in ((k, 2 * 8 * 7 / (64 + 6 * k)) for k in _SPARES)
        ),
        Claim(
            paper="With spare machines it is faster than an all-reduce, on up to 256 GPUs by up to 84 %.",
            ours="time of a ring all-reduce over that of byteps with 4 spares",
            figure="over all-reduce",
            unit="ratio",
            least=1.2,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="It is faster than parameter servers on as many machines, on up to 256 GPUs by up to 245 %.",
            ours="time of a step with 4 parameter servers, which do not cut their shares into pieces, over that of byteps with 4 spares",
            figure="over servers",
            unit="ratio",
            least=1.2,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Adding what the workers' optimizers did is the same as an asynchronous parameter server.",
            ours="steps after which a worker's weights differ in any bit, under plain SGD where no sum is rounded",
            figure="other weights",
            unit="steps",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Its training is that of an asynchronous parameter server.",
            ours="difference of the losses on held-out points, where sums are rounded",
            figure="difference",
            unit="nats",
            most=1e-3,
            kind=ClaimKind.VALUE,
        ),
    ),
)
