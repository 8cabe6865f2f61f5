"""One run of a program of torch.distributed in virtual time, with all that decides its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.seat import refuse_within_program
from polyrhythm.core.kernel.stopping import stoppable
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.settings import whole_number
from polyrhythm.core.simulator.process_state import OwnModules
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.torch_private.distributed import forget_shardings
from polyrhythm.core.training.log import Log
from polyrhythm.core.training.run import Attempt, carry_out
from polyrhythm.errors import CompositionError
from polyrhythm.torch_programs.clocks import virtual_clocks
from polyrhythm.torch_programs.in_place_of_python import process_of_ranks
from polyrhythm.torch_programs.in_place_of_torch import groups_of_ranks
from polyrhythm.torch_programs.launch import ranks_of_launches
from polyrhythm.torch_programs.memory import Memory, modules_followed
from polyrhythm.torch_programs.profiles import profiles_of_ranks
from polyrhythm.torch_programs.program import Copies, Main, as_by_torchrun
from polyrhythm.torch_programs.rank_settings import PLAIN, RankSettings
from polyrhythm.torch_programs.ranks import memory_here
from polyrhythm.torch_programs.runs import VirtualRuns, launched
from polyrhythm.torch_programs.shared_libraries import libraries_divided
from polyrhythm.torch_programs.shown_warnings import warnings_of_ranks
from polyrhythm.torch_programs.steps import steps_counted

SYSTEM = "torch.distributed"
"""The name of such a program in tables, where a run has that of its system."""

NOT_CHARGED = "not charged"
"""The setting that lists what a run has computed, and has not charged."""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """`main` at each of the `ranks`, or, where there is no number, called once to start its ranks itself.

    `settings` are for each rank, `notes` are recorded, and with `measure` and `memory` more is counted, as by `simulate`. The variables of
    torchrun have so many ranks `per_node`. Raises CompositionError for what cannot be.
    """

    main: Main
    ranks: int | None
    on: Simulator
    settings: RankSettings = PLAIN
    timeline: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    measure: Path | None = None
    memory: bool = False
    per_node: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.on, Simulator):
            raise CompositionError(
                f"on={self.on!r} is no simulator: give pr.Simulator(network=...); torchrun starts a script on real processes."
            )
        if self.ranks is not None and whole_number("ranks", self.ranks, "1 or more") < 1:
            raise CompositionError(f"ranks={self.ranks} is no number of ranks: give 1 or more.")
        if self.ranks is None and self.on.carrier == "processes":
            raise CompositionError(
                "Ranks that a program starts itself are threads: give --workers N, the number of ranks, or leave the processes out."
            )
        if self.per_node is not None and (self.ranks is None or self.per_node < 1 or self.ranks % self.per_node):
            raise CompositionError(f"{self.per_node} ranks on each node do not make up {self.ranks} ranks: give a divisor of their number.")

    @property
    def system(self) -> str:
        """The name of the run in tables."""
        strategy = self.settings.strategy
        return SYSTEM if strategy is None else str(strategy.name)

    def recorded(self) -> dict[str, str]:
        """The settings of the run, as its record shows them."""
        own = {"program": str(self.main), "runtime": repr(self.on)}
        given = {"strategy": self.settings.strategy, "steps": self.settings.steps}
        return {**own, **{name: repr(value) for name, value in given.items() if value is not None}, **self.notes}

    def attempt(self, directory: str | Path | None = None, watch: Watch = ignore) -> Attempt:
        """Make the run, and return a failed one too. What could not be charged is in the settings of its record."""
        refuse_within_program("pr.simulate")
        outcome = Outcome(Summary(self.system, self.ranks or 0, self.on.kind, self.on.network_name, self.on.seed), settings=self.recorded())

        def execute(record: Recorder) -> Ending:
            return self._execute(record, outcome)

        with stoppable():
            return carry_out(execute, Log(outcome, directory, watch))

    def _execute(self, record: Recorder, outcome: Outcome) -> Ending:
        forget_shardings()  # ranks may fork processes, such as those of a DataLoader
        memory = Memory if self.memory else lambda: None
        runs = VirtualRuns(self.on, record, self.timeline, OwnModules(self.main.folder), self.measure, memory, self.settings)
        try:
            with (
                groups_of_ranks(),
                process_of_ranks(),
                libraries_divided(),
                virtual_clocks(),
                steps_counted(),
                profiles_of_ranks(),
                warnings_of_ranks(),
                ranks_of_launches(),
                modules_followed(memory_here),
            ):
                if self.ranks is not None:
                    ending = runs.run(Copies(self.main, self.ranks, partial(as_by_torchrun, self.on.seed, self.per_node), self.on.seed))
                else:
                    ending = launched(self.main, runs, self.on.seed)
                    outcome.summary.workers = len(ending.results)
        finally:
            if remarks := runs.conclude():
                outcome.settings[NOT_CHARGED] = "; ".join(remarks)
        if self.settings.strategy is not None and not runs.asked:
            raise CompositionError(
                f"{self.main} never calls pr.join() without a system, so that {self.system} would change nothing: let it join on its data "
                f'axis, as in worker = pr.join(group=mesh["data"].get_group()), or leave {self.system} out.'
            )
        return ending
