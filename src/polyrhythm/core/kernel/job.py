"""The interface of a runtime: the job that it runs, and the ending that it returns; nothing here knows of models or strategies.

`core.training` makes the jobs; the simulator, the processes and the engines of `polyrhythm.launchers` run them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.crew_side import CrewSide
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group, servers, workers
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import FIRST
from polyrhythm.core.kernel.port import Body, Port
from polyrhythm.errors import CompositionError

T = TypeVar("T")


class WorkerContext(Protocol):
    """The runtime of one worker, as its blocking program sees it."""

    @property
    def port(self) -> Port:
        """The worker's port, for messages to other actors."""

    @property
    def record(self) -> Recorder:
        """The recorder that takes this worker's events."""

    @property
    def bytes_sent(self) -> int:
        """Bytes sent so far: by this actor in real processes, by everyone in the simulator."""

    @property
    def device(self) -> str:
        """The torch device the program's model should live on: "cpu", "cuda:0"."""

    @property
    def crew(self) -> CrewSide:
        """The changes of the run's crew."""

    def time(self) -> float:
        """The seconds of the run so far, with what the program has computed since it last waited."""

    def charge(self, samples: int) -> None:
        """A step over `samples` samples was computed: where time is virtual, its duration passes now."""

    def discard(self) -> None:
        """Discard what was computed since the last step, which nobody uses: where time is virtual, none passes for it."""

    def reach(self, done: float) -> None:
        """Report the part of this step's forward pass that has been computed, from 0 to 1, before the program waits inside it.

        It counts where steps are measured as a whole and time is virtual: that part of the duration passes now, and not at the `charge`.
        """

    def charge_merge(self, others: int) -> None:
        """The contributions of `others` other workers were merged: where time is virtual, the measured duration of that passes now."""

    def follow(self, model: Any, alone: str) -> None:
        """The program trains `model`; `alone` is why its gradients must not be computed with those of other workers, "" if they may."""

    def free(self, compute: Callable[[], T]) -> T:
        """Call `compute`, which is not part of the training: it takes no virtual time."""

    def write(self, deed: Callable[[], T]) -> T:
        """Call `deed`, which writes this worker's part of a checkpoint: it takes no virtual time, unless a fault slows the disk down."""

    def uncounted(self, compute: Callable[[], T]) -> T:
        """Call `compute`, which is the library's work: no operations are counted for virtual time, but those in `counted`."""

    def counted(self, compute: Callable[[], T]) -> T:
        """Call `compute`, which is the user's work inside of `uncounted`."""

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """Block the program until `coroutine` has ended; everything it awaits goes through the port.

        It runs after all that was started before, and raises the error if any of that has failed.
        """

    def perform_steps(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        """`perform` a coroutine that takes steps of the worker, and that records itself what it computes and what it waits for."""

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        """Start `coroutine` in the background while the program continues to compute; it may be called in a hook of `backward()`.

        Coroutines started so run one after the other, in that order, and end with the program. `done` is the part of this backward
        pass that has been computed, from 0 to 1, for a runtime whose steps are measured as a whole.
        """

    def native(self, group: Group) -> bool:
        """True if there are native collectives of `group` (`Port.collective`), which is one of `Job.collective`; equal at all members."""

    def agree(self, facts: Facts, remedy: str) -> None:
        """Compare `facts` with those of all other workers; where they differ, every worker raises the same CompositionError.

        It names the first difference and the ranks, and ends in `remedy`. All workers compare the same facts in the same order. The
        simulator compares with the workers that have called before, real processes wait for all. This is not counted as traffic and takes
        no virtual time.
        """

    def align(self, alignment: Alignment) -> Message | None:
        """None where the facts of all workers are equal; else the state of worker 0, where `alignment` judges every state to be near it.

        Raises CompositionError at all workers if one of them is further away. The simulator compares with the worker that called first,
        does not wait, and raises each difference when it finds it. Rounds and costs are those of `agree`.
        """

    def compare(self, comparison: Comparison) -> None:
        """Compare with the workers that come to the same moment, without waiting for any: a difference ends the run, now or soon.

        CompositionError is then raised at all workers. This is not counted as traffic and takes no virtual time.
        """

    def stopped(self, steps: int) -> None:
        """The program has taken the last of its `steps`: a deadlock message can then explain why others wait for it."""

    def last_step(self, clock: int) -> int | None:
        """The step after which all workers write a last checkpoint, because the run was asked to stop; None while it was not.

        Called between two steps, after `clock` of them. It may wait until all workers have said how far they are.
        """

    def stop(self, kept: bool) -> None:
        """The last checkpoint is written, if it was `kept`: the run ends here, and this does not return."""


class Work(Protocol):
    """A computation for that many `workers`, before it is known where they are: a `Job` is one too, whose locations are settled."""

    @property
    def workers(self) -> int:
        """The number of workers that it uses."""

    @property
    def crew(self) -> Crew:
        """The numbers of workers that it may have later."""

    @property
    def resumable(self) -> bool:
        """True if it writes checkpoints."""

    def job(self, locations: Sequence[Location]) -> Job:
        """The job for workers at these locations, by rank. Raises CompositionError if they do not fit."""

    def continued(self) -> Work:
        """The same work, from its newest checkpoint; from its beginning if it has none."""

    def joined(self) -> Work:
        """The same work for a worker that joins it under way, and gets the state of another."""


@dataclass(frozen=True, slots=True)
class Job:
    """`workers` copies of a blocking program, `servers` actors, and which losses the run survives.

    `program` returns a message (final weights, totals) or None. `essential` is true for an actor without which the run cannot continue.
    `seed` is the root of every random stream. `groups` are those whose sums are made besides the sums of all workers, each a name and its
    members; a runtime may give them native sums. `colocated` has, for each server, the rank of the worker at whose site it should run, or
    None where the runtime decides. `began` is what the run's clock shows when it begins: where one is resumed, the seconds that it had
    taken before. With a `timeline`, messages and the phases of exchanges are recorded too. `grace` is how many seconds the run may take to
    write a last checkpoint when it is asked to stop; 0 where it can write none. `crew` is how many workers it may have later: by default as
    many. `carriers` is how the simulator carries programs, by default in its own way. `collective` are groups too, which a runtime may
    give native collectives.
    Raises CompositionError for groups of equal names, or with members that are not in the run.
    """

    workers: int
    servers: int
    program: Callable[[WorkerContext], Message | None]
    service: Callable[[Port, Recorder], Coroutine[Effect[Any], Any, None]]
    essential: Callable[[str], bool]
    seed: int = 0
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    colocated: tuple[int | None, ...] = ()
    began: float = 0.0
    timeline: bool = False
    grace: float = 0.0
    crew: Crew = FIXED
    carriers: Any = None
    collective: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        if self.crew.fixed:
            object.__setattr__(self, "crew", self.crew.within(self.workers, self.workers))
        groups = (*self.groups, *self.collective)
        names = [name for name, _ in groups]
        if "" in names or len(set(names)) < len(names):
            raise CompositionError(f"The groups have the names {names}: give each a different name; the empty name is that of all workers.")
        actors = {*workers(self.workers), *servers(self.servers)}
        for name, members in groups:
            if len(set(members)) < len(members) or not members or not actors.issuperset(members):
                raise CompositionError(
                    f"The group {name!r} has the members {list(members)}: give at least one, each once, and only actors of this run, "
                    f"which has {self.workers} workers and {self.servers} servers."
                )

    @property
    def resumable(self) -> bool:
        """Always False: it writes checkpoints, if any, in its own way."""
        return False

    def job(self, locations: Sequence[Location]) -> Job:
        """Itself: it was made for its locations."""
        return self

    def continued(self) -> Job:
        """Itself: it has no checkpoints."""
        return self

    def joined(self) -> Job:
        """Itself."""
        return self

    @property
    def summing(self) -> dict[str, tuple[str, ...]]:
        """The members of each group of two or more workers, by its name; all workers are the group ""."""
        return self._several({"": workers(self.workers), **dict(self.groups)})

    @property
    def gathering(self) -> dict[str, tuple[str, ...]]:
        """The members of each group of two or more workers that has collectives, by its name."""
        return self._several(dict(self.collective))

    def _several(self, groups: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        everyone = set(workers(self.workers))
        return {name: members for name, members in groups.items() if len(members) > 1 and everyone.issuperset(members)}


@dataclass(slots=True)
class Ending:
    """The end of a run: results by actor, totals on the wire, and the seconds it took (virtual or real).

    `bytes_between_sites` are those of `bytes_sent` that went from one site to another; None where a runtime does not know. `first` is the
    first worker of the last view, whose result has the weights. `notes` are added to the settings in the record.
    """

    results: dict[str, Message | None] = field(default_factory=dict)
    bytes_sent: int = 0
    messages_sent: int = 0
    seconds: float = 0.0
    lost: list[str] = field(default_factory=list)
    bytes_between_sites: int | None = None
    first: str = FIRST
    notes: dict[str, str] = field(default_factory=dict)


@runtime_checkable
class Runtime(Protocol):
    """A way to run a job: `Simulator` in virtual time, `Processes` on this host, engines as `Ray` on a cluster."""

    @property
    def kind(self) -> str:
        """ "simulator", "processes" or the name of an engine, as in `--on` and in the JSON."""

    @property
    def seed(self) -> int:
        """The default seed of a run."""

    @property
    def network_name(self) -> str | None:
        """The name of the network that it models; None where the network is real."""

    def locations(self, workers: int) -> tuple[Location, ...] | None:
        """The location of each of that many workers, by rank; None where that is known only when they have been placed."""

    def execute(self, work: Work, record: Recorder) -> Ending:
        """Run `work` to its end; events go to `record` as they happen. Raises `RunError`s."""


__all__ = ["Body", "Ending", "Job", "Runtime", "Work", "WorkerContext"]
