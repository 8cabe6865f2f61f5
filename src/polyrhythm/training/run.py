"""Run one training function with many workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import msgspec

from polyrhythm import systems
from polyrhythm.errors import CompositionError, PolyrhythmError, WorkloadError, sentence
from polyrhythm.kernel.events import AnyEvent, Stepped
from polyrhythm.kernel.job import Ending, Job, Runtime, Stage
from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import rank_of, worker
from polyrhythm.pieces.terms import Place
from polyrhythm.processes import Processes
from polyrhythm.report.outcome import Outcome, Summary
from polyrhythm.report.progress import Watch, ignore, progress
from polyrhythm.strategy.service import Service
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.tensors import digest
from polyrhythm.training.result import Run
from polyrhythm.training.worker import Worker
from polyrhythm.workloads.script import refuse_while_imported

Train = Callable[[Worker], object]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a run: its outcome, as far as it got, and the error that ended it, if one did."""

    outcome: Outcome
    error: PolyrhythmError | None = None


def run(
    train: Train,
    *,
    workers: int = 2,
    strategy: str | Strategy = "allreduce",
    on: Runtime | None = None,
    seed: int | None = None,
    directory: str | Path | None = None,
) -> Run:
    """Run `train(worker)` once in every worker, and return what came of it.

    `strategy` is a published system's name or a composition of your own; `on` the runtime, `Processes()` by default; `seed` the root
    of all random streams, the runtime's own by default. With a `directory`, events are written there as they happen, and the
    rest when the run has ended, well or not. Where stderr is a terminal, a line shows how far the run is. Raises PolyrhythmErrors only.
    """
    refuse_while_imported("pr.run")
    chosen = systems.resolve(strategy)
    with progress(1, wanted=True) as begin:
        tried = attempt(train, workers=workers, strategy=chosen, on=on, seed=seed, directory=directory, watch=begin(chosen.name))
    if tried.error is not None:
        raise tried.error
    return Run(tried.outcome)


def attempt(
    train: Train,
    *,
    workers: int,
    strategy: Strategy,
    on: Runtime | None = None,
    seed: int | None = None,
    directory: str | Path | None = None,
    watch: Watch = ignore,
    notes: Mapping[str, str] | None = None,
) -> Attempt:
    """As `run`, but a run that fails comes back too, with what is known of it; `watch` is shown each event as it happens, and the
    record tells `notes` among its settings.

    Raises PolyrhythmErrors for what cannot be begun.
    """
    if isinstance(workers, bool) or not isinstance(workers, SupportsIndex):
        raise CompositionError(f"workers={workers!r} is not a whole number: give 1 or more.")
    workers = index(workers)  # of numpy's kinds, a plain one
    if workers < 1:
        raise CompositionError(f"workers={workers} trains nothing: give 1 or more.")
    if not callable(train):
        raise WorkloadError(f"{train!r} cannot be called: give a function train(worker), or use load_workload for a bundled one.")
    if on is not None and (isinstance(on, type) or not isinstance(on, Runtime)):
        raise CompositionError(f"on={on!r} is not a runtime: give one, pr.Processes() or pr.Simulator(network=...).")
    runtime = on if on is not None else Processes()
    root = runtime.seed if seed is None else seed
    job = make_job(train, strategy, workers, root)
    summary = Summary(strategy.name, job.workers, runtime.kind, runtime.network_name, root)
    outcome = Outcome(summary, settings=settings_told(train, strategy, runtime, notes or {}))
    with _Log(outcome, directory, watch) as log:
        try:
            conclude(outcome, runtime.execute(job, log.record))
        except PolyrhythmError as error:
            break_off(outcome, error)
            return Attempt(outcome, error)
    return Attempt(outcome)


def settings_told(train: Train, strategy: Strategy, runtime: Runtime, notes: Mapping[str, str]) -> dict[str, str]:
    """What the record of a run says of how it was set."""
    return {"strategy": repr(strategy), "runtime": repr(runtime), "train": getattr(train, "__qualname__", repr(train)), **notes}


_TRANSLATED = {
    "empty parameter list": "The model has no parameters, so there is nothing to train: give the optimizer a model that has.",
    "Default process group has not been initialized": (
        "torch.distributed was called and has no process group in a training function: use worker.barrier(), worker.mean(...), "
        "worker.any(...) or worker.broadcast(...), which work in every runtime."
    ),
}
"""torch's own words, said before anything comes to us, and ours."""


def make_job(train: Train, strategy: Strategy, workers: int, seed: int) -> Job:
    """The runtime's view of a training function under a strategy."""
    taking_part = strategy.topology.workers(workers)
    strategy.check(taking_part)

    def program(stage: Stage) -> Message:
        place = Place(rank_of(stage.port.name), taking_part, seed)
        own = Worker(stage, strategy, place)
        try:
            train(own)
        except (ValueError, RuntimeError) as error:
            for torchs, ours in _TRANSLATED.items():
                if torchs in str(error):
                    raise CompositionError(ours) from error
            raise
        return conclusion(own)

    def service(port: Any, record: Any) -> Any:
        return Service(strategy, Place(rank_of(port.name), taking_part, seed), port, record).live()

    return Job(taking_part, strategy.topology.servers(taking_part), program, service, strategy.essential, seed)


def conclusion(own: Worker) -> Message:
    """A worker's result: its counts and metrics, and from worker 0 the final weights."""
    own.finish()
    weights = own.weights() if own.rank == 0 else {}
    text = json.dumps({"names": list(weights), "metrics": own.metrics})
    return Message("result", (float(own.clock), float(own.samples), own.seconds_aside), text, tuple(weights.values()))


def conclude(outcome: Outcome, ending: Ending, teller: str = worker(0)) -> None:
    """Complete `outcome` by how the run ended; metrics and weights are those of the worker `teller`."""
    summary, results = outcome.summary, {name: result for name, result in ending.results.items() if result is not None}
    first = results[teller]
    told = msgspec.json.decode(first.text)
    outcome.weights = dict(zip(told["names"], first.tensors, strict=True))
    summary.final = told["metrics"]
    summary.weights_sha256 = digest(outcome.weights.items()) if outcome.weights else None
    summary.steps = int(max(result.numbers[0] for result in results.values()))
    summary.samples = int(sum(result.numbers[1] for result in results.values()))
    summary.bytes_sent, summary.messages_sent, summary.lost = ending.bytes_sent, ending.messages_sent, ending.lost
    _passed(summary, ending.seconds if summary.on == "simulator" else max(0.0, ending.seconds - first.numbers[2]))


def break_off(outcome: Outcome, error: PolyrhythmError) -> None:
    """Complete `outcome` of a run that `error` ended, from its events."""
    summary = outcome.summary
    summary.error = sentence(error)
    stepped = {event.actor: event for event in outcome.events if isinstance(event, Stepped)}
    summary.steps = max((event.clock for event in stepped.values()), default=0)
    summary.samples = sum(event.samples for event in stepped.values())
    known = [event.bytes_sent for event in stepped.values()]  # in virtual time each knows of all, in real processes of itself
    summary.bytes_sent = max(known, default=0) if summary.on == "simulator" else sum(known)
    _passed(summary, max((event.time for event in outcome.events), default=0.0))


def _passed(summary: Summary, seconds: float) -> None:
    if summary.on == "simulator":
        summary.virtual_seconds = seconds
    else:
        summary.seconds = seconds


class _Log:
    """Keeps events, and writes them to `directory` as they come, so that a run that fails keeps its record; shows them to `watch`."""

    def __init__(self, outcome: Outcome, directory: str | Path | None, watch: Watch) -> None:
        self.outcome = outcome
        self.watch = watch
        self.directory = Path(directory) if directory is not None else None
        self.encoder = msgspec.json.Encoder()

    def __enter__(self) -> _Log:
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            for name in ("run.json", "weights.safetensors"):  # of an earlier run: they must not outlive its events
                (self.directory / name).unlink(missing_ok=True)
            self.file = (self.directory / "events.jsonl").open("wb", buffering=0)
        return self

    def record(self, event: AnyEvent) -> None:
        self.outcome.events.append(event)
        if self.directory is not None:
            self.file.write(self.encoder.encode(event) + b"\n")
        self.watch(event)

    def __exit__(self, *error: object) -> None:
        if self.directory is not None:
            self.file.close()
            self.outcome.save(self.directory)
