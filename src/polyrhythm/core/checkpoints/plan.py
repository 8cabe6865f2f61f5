"""The checkpoints of a run: where and when it writes them, and which one it continues from.

`training.checkpoint_plan` makes the plan from the user's request; every worker and server gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.checkpoints.continuation import Continuation
from polyrhythm.core.checkpoints.fitting import fitting
from polyrhythm.core.checkpoints.moments import CheckpointMoments, OnRequest
from polyrhythm.core.checkpoints.store import CheckpointStore
from polyrhythm.core.kernel.view import View
from polyrhythm.core.trees import StateTree


class RunOrigin(NamedTuple):
    """The step and the seconds at which a run began, and how often others have resumed it, this time included."""

    step: int = 0
    seconds: float = 0.0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """`store` is where checkpoints are written, and `moments` after which steps; `resumed` is the one that the run continues from.

    Without a store none are written. `grace` is how many seconds a run that is asked to stop may take to write a last one. `override` names
    settings of which a resumed run takes its own; so many `restarts` may take no further step; `circumstances` are recorded in each
    checkpoint. `handed` is the state that a worker which joins a run under way was given by a survivor, in the view of that `epoch`.
    `changed` is true where other workers, or other groups of them, have written the checkpoint that is resumed, and `relaid` where their
    models were in other parts, and `switched` where it was of another strategy. `origin` is where the run continues from it: the
    checkpoint itself is deleted when later ones are there.
    """

    store: CheckpointStore | None = None
    moments: CheckpointMoments = OnRequest()  # noqa: RUF009 (a frozen value)
    resumed: Checkpoint | None = None
    grace: float = 0.0
    override: frozenset[str] = frozenset()
    restarts: int = 3
    circumstances: Mapping[str, str] = field(default_factory=dict)
    handed: StateTree = None
    epoch: int = 0
    changed: bool = False
    relaid: bool = False
    switched: bool = False
    origin: RunOrigin = RunOrigin()  # noqa: RUF009 (a frozen value)

    @property
    def began(self) -> float:
        """Seconds on the run's clock at its start: 0, or those that the checkpoint recorded."""
        return self.origin.seconds

    @property
    def step(self) -> int:
        """The step after which the run continues: 0, or that of the checkpoint."""
        return self.origin.step

    @property
    def changes(self) -> int:
        """How often the run was resumed by other workers or groups, this time included."""
        return self.origin.changes

    @property
    def incarnation(self) -> tuple[str, ...]:
        """The part of the path of random streams that distinguishes the workers of now from earlier ones of the same names."""
        return (f"change {self.changes}",) if self.changes else ()

    def continuation(self, name: str, members: Sequence[str]) -> Continuation | None:
        """The state from which the worker `name` of `members` continues; None in a new run."""
        if self.handed is not None:
            return Continuation(self.handed, changed=True, own=False)
        if self.resumed is None:
            return None
        if self.switched:
            return Continuation.switched_among(self.resumed, name, members)
        if self.relaid:
            return Continuation.relaid(self.resumed, name == View.of(members).first)
        return Continuation.among(self.resumed, name, members) if self.changed else Continuation(self.resumed.read(name))


@dataclass(slots=True)
class ServerMemory:
    """The states of one server's models and tables when the crew changed last, by name, and what gives those of the present."""

    states: dict[str, StateTree] = field(default_factory=dict)
    exports: dict[str, Callable[[], StateTree]] = field(default_factory=dict)

    def change(self) -> None:
        """The crew changes: the present states are those to continue from."""
        self.states |= {name: export() for name, export in self.exports.items()}
        self.exports.clear()


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of one server, for the parameters whose topics begin with `scope`; implements `ServerCheckpoints`.

    In a run whose crew has changed `memory` is newer.
    """

    plan: CheckpointPlan
    server: str
    scope: str
    memory: ServerMemory

    def resume(self, restore: Callable[[StateTree], None], export: Callable[[], StateTree]) -> None:
        """Call `restore` with the state that the server had exported; it is read from the files each time."""
        self.memory.exports[self._name] = export
        if self._name in self.memory.states:
            restore(self.memory.states[self._name])
            return
        if self.plan.resumed is None or self.plan.switched:
            return
        with fitting(f"state of {self.server}"):
            restore(self.plan.resumed.read(self._name))

    @property
    def changed(self) -> bool:
        """True if the crew has changed since the state was exported."""
        return self._name in self.memory.states

    def of(self, server: str) -> ServerFiles:
        """The files of another server in the same checkpoints."""
        return replace(self, server=server)

    def write(self, step: int, state: StateTree) -> str:
        """Write to the partial checkpoint of `step`; returns the system's reason where that fails, else an empty string."""
        if self.plan.store is None:  # a cut, at which the crew changes
            return ""
        try:
            self.plan.store.partial(step).write(self._name, state)
        except OSError as problem:
            return f"{self.server} could not write its state: {problem.strerror or problem}"
        return ""

    @property
    def _name(self) -> str:
        return self.server + (f".{self.scope.strip('/')}" if self.scope else "")


def path_given(given: str | Path) -> Path:
    """`given`, absolute: servers and workers may be processes with other working directories."""
    return Path(given).absolute()
