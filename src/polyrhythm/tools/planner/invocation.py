"""The commands and the code that run a choice of a plan: by the command line, in virtual time on the plan's machines, and in Python."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from polyrhythm.tools.planner.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Invocation:
    """`job` is what the command line calls the JOB, None for a function that it has no name for.

    `arguments` are the JOB's own, `machines` those of a run in virtual time on the plan's machines, None where these have no names;
    `target` is what a run is to reach; `function` is what a function without a name there is called in Python.
    """

    job: str | None
    arguments: tuple[str, ...] = ()
    machines: tuple[str, ...] | None = None
    seed: int = 0
    target: str = ""
    function: str = "train"

    def command(self, candidate: Candidate) -> str:
        """The command line that runs it; empty where there is none."""
        return self._line("run", "--system", candidate)

    def rehearsal(self, candidate: Candidate) -> str:
        """A command line that shows when it reaches the target in virtual time; empty where there is none."""
        return (
            ""
            if self.machines is None
            else self._line("compare", "--systems", candidate, *self.machines, *candidate.machine_arguments(), "--to", self.target)
        )

    def _line(self, command: str, system: str, candidate: Candidate, *further: str) -> str:
        if self.job is None:
            return ""
        seed = ["--seed", str(self.seed)] if self.seed else []
        own = ["--", *self.arguments] if self.arguments else []
        return shlex.join(["polyrhythm", command, self.job, system, candidate.system, *candidate.arguments(), *seed, *further, *own])

    def code(self, candidate: Candidate) -> str:
        """The call in Python that runs it in virtual time; without `on` it is run for real."""
        options = "".join(f", {key}={value!r}" for key, value in candidate.options)
        strategy = f'pr.systems.find("{candidate.system}"{options})' if candidate.options else f'"{candidate.system}"'
        if candidate.machines.shares:
            shuffle = f"pr.shuffle.ByShares({candidate.machines.shares})"
            strategy = f'dataclasses.replace(pr.systems.find("{candidate.system}"{options}), shuffle={shuffle})'
        seed = f", seed={self.seed}" if self.seed else ""
        return f"pr.run({self._train(candidate)}, workers={candidate.workers}, strategy={strategy}, on={self._simulator(candidate)}{seed})"

    def _simulator(self, candidate: Candidate) -> str:
        """The plan's machines; by the names that they have in the call where they have none that can be written."""
        given = "network, devices"
        if self.machines is not None:
            named = dict(zip(self.machines[2::2], self.machines[3::2], strict=True))  # after --on simulator
            given = f"{named['--network']!r}, {named['--device']!r}"
        some = candidate.machines
        return f"pr.Simulator(*pr.hardware.some_machines({given}, {some.places}, of={some.of}))" if some else f"pr.Simulator({given})"

    def _train(self, candidate: Candidate) -> str:
        if self.job is None:
            given = "".join(f", {key}={value!r}" for key, value in candidate.settings)
            return f"lambda worker: {self.function}(worker{given})" if given else self.function
        given = f", {dict(candidate.settings)!r}" if candidate.settings else ""
        return f'pr.load_workload("{self.job}"{given})'
