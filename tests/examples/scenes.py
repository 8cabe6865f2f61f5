"""The example scripts, how they are run, and what each worker was given meanwhile."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.workloads.load import load_workload

ORIGINALS = Path(__file__).parent / "originals"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SYSTEMS = ("allreduce", "ssp", "gossipgrad")
VIRTUAL, REAL = Simulator(network="slow"), Processes()


@dataclass(frozen=True)
class Script:
    """How many samples an epoch of it has at most, and the metric that one epoch brings above, or below, a bound."""

    samples: int
    metric: str
    least: float = float("-inf")
    most: float = float("inf")


SCRIPTS = {
    "image_classifier": Script(1437, "accuracy", least=0.5),
    "vae": Script(1500, "test_loss", most=32.0),
    "language_model": Script(40000 // 32, "test_bits", most=5.5),
    "gan": Script(1797, "distance", most=0.4),
}
WORKERS = 2


class Noting:
    """A training function each of whose workers notes which samples it was given, in a file of its own in `folder`."""

    def __init__(self, train: Any, folder: Path) -> None:
        self.train = train
        self.folder = folder

    def __call__(self, worker: Any) -> None:
        given: list[str] = []
        every: list[str] = []
        batches = worker.batches

        def noting_batches(loader: Any) -> Any:
            every.extend(_print_of(loader.dataset[index]) for index in range(len(loader.dataset)))
            return NotedBatches(batches(loader), given)

        worker.batches = noting_batches
        self.train(worker)
        (self.folder / f"{worker.rank}.json").write_text(json.dumps({"given": given, "every": every}))


@dataclass
class NotedBatches:
    """A worker's batches; what each sample of them is goes into `given`."""

    batches: Any
    given: list[str]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.given.extend(_print_of(sample) for sample in zip(*batch, strict=True))
            yield batch


def _print_of(sample: Iterable[Any]) -> str:
    """The same for equal samples."""
    digest = hashlib.blake2b(digest_size=8)
    for part in sample:
        digest.update(part.numpy().tobytes())
    return digest.hexdigest()


def trained(path: Path, system: str, on: Runtime, folder: Path, seed: int = 1) -> Run:
    """What one epoch of the script gives, and into `folder` what its workers were given."""
    return run(Noting(load_workload(str(path), {}), folder), workers=WORKERS, strategy=system, on=on, seed=seed)


def check(script: Script, outcome: Run, folder: Path) -> None:
    """It learned, and every worker on a share of its own: no sample was given twice, and nearly all were."""
    notes = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORKERS)]
    given = [Counter(note["given"]) for note in notes]
    assert given[0].total() == given[1].total()
    assert given[0] + given[1] <= Counter(notes[0]["every"]), "somebody was given what another had, or has had it twice"
    assert outcome.summary.samples == (given[0] + given[1]).total()
    assert 0.95 * script.samples < outcome.summary.samples <= script.samples
    assert script.least < outcome.final[script.metric] < script.most
