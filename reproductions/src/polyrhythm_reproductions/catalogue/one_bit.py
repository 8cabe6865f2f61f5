"""1-bit SGD: bits instead of floats under AdaGrad, what is lost without the residual or with one scale a layer, and the speed-up."""

from __future__ import annotations

from collections.abc import Callable

import torch

from polyrhythm.codec import ErrorFeedback, OneBit, OneBitTensorwise, PerTensor, Striped, Warmup
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm.tools.measuring.timing import simulate_timing
from polyrhythm.workloads.workload import Workload
from polyrhythm_reproductions.jobs.chars import Chars
from polyrhythm_reproductions.jobs.recipes import AdagradRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS, _WARMUP, _TIMED, _FRAMES = 4, 10, 8, 1024
_RATES, _MIDDLE = (0.02, 0.04, 0.08), 0.04
_COLUMNS = (64, 128, 512, 2048)
_NETWORK = Network.uniform("300 Mbit/s", "300 Mbit/s", "50 us")
_BITS = find("onebit", warmup=_WARMUP)
_FORGETFUL = Strategy(codec=Warmup(_WARMUP, Striped(PerTensor(OneBit()))), name="without residual")
_LAYERWISE = Strategy(codec=Warmup(_WARMUP, Striped(PerTensor(ErrorFeedback(OneBitTensorwise())))), name="one scale a layer")


def points_job(trial: ArmTrial, rate: float) -> Workload:
    """Classes of points, under AdaGrad, as the paper trains."""
    return Teacher(AdagradRecipe(rate), epochs=trial.size(8, 3), samples=trial.size(8192, 4096))


def text_job(trial: ArmTrial, rate: float) -> Workload:
    """Characters: the columns of an embedding are as uneven as letters are rare."""
    return Chars(AdagradRecipe(rate), samples=trial.size(10_240, 1024), batch_size=8, context=32, layers=1, width=64, heads=2)


ARMS: dict[str, tuple[Callable[[ArmTrial, float], Workload], Strategy]] = {
    "dense": (points_job, find("allreduce")),
    "onebit": (points_job, _BITS),
    "without residual": (points_job, _FORGETFUL),
    "onebit, text": (text_job, _BITS),
    "one scale a layer, text": (text_job, _LAYERWISE),
}


def tune(trial: ArmTrial) -> Figures:
    """The best rate of each arm, of the same three; in a quick run the middle one."""
    if trial.quick:
        return dict.fromkeys(ARMS, _MIDDLE)
    return {
        name: trial.best({rate: trial.train(name, make(trial, rate), strategy, _WORKERS) for rate in _RATES})
        for name, (make, strategy) in ARMS.items()
    }


def measure(trial: ArmTrial) -> Figures:
    """Losses and accuracies at equal samples, bytes of columns, and seconds of steps."""
    ends = {name: trial.train(name, make(trial, trial.tuned[name]), each, _WORKERS) for name, (make, each) in ARMS.items()}
    loss = {name: end.final for name, end in ends.items()}
    accuracy = {name: 100 * end.metric("accuracy") for name, end in ends.items() if not name.endswith("text")}
    return {
        "points lost": accuracy["dense"] - accuracy["onebit"],
        "loss gained": 100 * (loss["onebit"] / loss["dense"] - 1),
        "points lost without": accuracy["onebit"] - accuracy["without residual"],
        "loss of one scale": 100 * (loss["one scale a layer, text"] / loss["onebit, text"] - 1),
        "off the formula": max(abs(_ratio(OneBit(), m) / (32 * m / (m + 64)) - 1) for m in _COLUMNS),
        "speed-up": _seconds("single", 1) / _seconds("onebit", _TIMED),
    }


def _seconds(system: str, workers: int) -> float:
    """Virtual seconds of a step in which all workers together take the same samples."""
    strategy = find(system, warmup=1) if system == "onebit" else find(system)
    work, on = Teacher(width=1024, batch_size=_FRAMES // workers), Simulator(network=_NETWORK)
    first, all_steps = (simulate_timing(work, workers=workers, strategy=strategy, steps=steps, on=on).outcome.time for steps in (1, 21))
    return (all_steps - first) / 20


def _ratio(codec: PacketCodec, length: int) -> float:
    """Bytes of 256 columns of `length` floats over those of their packet."""
    layout = Layout(("columns",), ((256, length),))
    context = ExchangeContext(Group.of_workers(1, 0), rng.stream(0, "columns"))
    values = torch.randn(layout.numel, generator=torch.Generator().manual_seed(0))
    packet = codec.encode(values, layout, codec.initial(layout), context).packet
    return 4 * layout.numel / sum(part.nbytes for part in packet)


REPRODUCTION = Reproduction(
    name="onebit",
    systems=("onebit",),
    paper="Seide, Fu, Droppo, Li, Yu: 1-Bit Stochastic Gradient Descent (Interspeech 2014)",
    setting=(
        "Quality: `teacher` (a perceptron of 20,500 parameters, which does not learn its classes perfectly), and for the columns a "
        "small chars-gpt, whose embedding has uneven ones; under AdaGrad, 4 workers, each arm at the best of three rates, held-out "
        "loss, accuracy and bits. Seconds: a perceptron of 1.1 M parameters in batches of 1,024 in all, by 1 and by 8 workers on "
        "`cpu-core` machines and lines of 300 Mbit/s, where an eighth of a batch is computed in a sixth of the time that a dense "
        "all-reduce takes. The paper: 46 M parameters, frames of speech, 8 K20X."
    ),
    baseline="dense",
    measure=measure,
    tune=tune,
    notes=(
        "Seconds are of 20 steps after the first that exchange zeros and are timed only; those of encoding are not in them. One pair "
        "of values a layer was tried on `teacher` first, whose columns are even, and was no worse there. What the residual and the "
        "columns bring goes the paper's way and falls short of what was asked for: 2.4 points, and 0.9 %."
    ),
    claims=(
        Claim(
            paper="Gradients can be quantized to one bit with no or nearly no loss of accuracy, if the error is carried forward.",
            ours="accuracy lost by 1 bit against the dense all-reduce, both under AdaGrad at their best rates",
            figure="points lost",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="AdaGrad does not suffer under quantization (the paper: it even improves slightly).",
            ours="held-out loss of 1 bit above that of the dense all-reduce, both under AdaGrad at their best rates; an improvement is "
            "not asked for",
            figure="loss gained",
            unit="%",
            most=5.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Without error feedback training does not converge well.",
            ours="accuracy lost without a residual against 1 bit with one",
            figure="points lost without",
            unit="points",
            least=3.0,
        ),
        Claim(
            paper="Values for each column serve better than shared ones.",
            ours="bits a character with one pair of values for each layer above those with a pair for each column",
            figure="loss of one scale",
            unit="%",
            least=1.0,
        ),
        Claim(
            paper="An element takes a bit, and a column two values: 32 m / (m + 64) times fewer bytes for columns of m.",
            ours="greatest deviation of packets from the formula, columns of 64 to 2,048",
            figure="off the formula",
            unit="ratio",
            most=1e-9,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="8 GPUs are 3.6 times as fast as one at 2,880 frames a batch (6.3 times at 16,000).",
            ours="speed-up by 8 workers with 1 bit at the same batch, where a dense exchange takes six times as long as computing",
            figure="speed-up",
            unit="x",
            least=3.6,
            efficiency=Efficiency.SYSTEM,
        ),
    ),
)
