"""`polyrhythm plan`: which way of training suits a JOB and machines."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.groups import PrintOptions, RuntimeOptions, grouped
from polyrhythm.tools.cli.options import Arguments, DeviceName, Job, NetworkName, Seed, Settings, path_given

if TYPE_CHECKING:
    from polyrhythm.tools.planner.data_site import DataSite
    from polyrhythm.tools.planner.plan import PlanRequest
    from polyrhythm.tools.planner.recorded import RecordedRun

Goal = Annotated[str, typer.Option("--to", metavar="METRIC=VALUE", help="The target, such as accuracy=0.96.")]
Counts = Annotated[
    str, typer.Option("--workers", metavar="A..B|A,B,C", help="How many workers there may be: 2..16 tries powers of two and both ends.")
]
Budget = Annotated[str, typer.Option("--budget", metavar="TIME", help="How long the search may take, such as 90s or 10m.")]
Least = Annotated[
    str, typer.Option("--objective", metavar="time|bytes|money|energy", help="What there is to be least of until the target.")
]
Bound = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="What a worker may need at most, such as 2GB.")]
Hour = Annotated[float, typer.Option("--worker-hour", metavar="PRICE", help="What an hour of one worker costs.")]
Traffic = Annotated[float, typer.Option("--gigabyte", metavar="PRICE", help="What a gigabyte that is sent costs.")]
Watts = Annotated[
    float | None, typer.Option("--watts", metavar="W", help="What one worker draws; without it what the device says, or 100.")
]
Fetched = Annotated[
    str | None,
    typer.Option("--data", metavar="SITE=SIZE", help="Where the data lie, such as lab=40GB: other sites fetch them before the training."),
]
Streamed = Annotated[
    str | None, typer.Option("--stream", metavar="SITE=SIZE", help="The same, where they come while the training goes on.")
]
Interrupted = Annotated[
    str | None,
    typer.Option(
        "--interruptions",
        metavar="PER_HOUR|TRACE",
        help="Predict times with workers that are lost: how often an hour each one, or a trace (`docs/guide/faults.md`).",
    ),
]
Verified = Annotated[
    int,
    typer.Option(
        "--verify",
        metavar="N",
        help="Time real steps of the best N systems on this machine, and predict anew with what codecs compute (`measured`).",
    ),
]
Systems = Annotated[
    str,
    typer.Option("--systems", metavar="A,B,C|all", help="The systems that are tried.", autocompletion=complete_systems),
]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="N", help="How many runs at once; default one for each core.")]
JobsOn = Annotated[str, typer.Option("--on", metavar="host|ray", help="Where runs are made: this host, or a Ray cluster (RAY_ADDRESS).")]
Where = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        parser=path_given,
        help="Keep the runs there, so that the same command goes on, and write the plan and its page.",
    ),
]


Since = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN_DIR",
        parser=path_given,
        help="Start from the record of a run of JOB: its steps, its lines and how far it came; says what to change now.",
    ),
]


Proxies = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy",
        metavar="KEY=A,B,C|KEY|auto",
        help="For a model that is too large to try: train smaller ones, by this setting of JOB, and extrapolate to its own.",
    ),
]


Start = Annotated[
    str,
    typer.Option("--start", metavar="DURATION", help="The time of the day at which training begins, for prices that change: 20h."),
]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The machines, the objective and the limits of a search."""

    network: NetworkName = None
    device: DeviceName = None
    workers: Counts = "2..8"
    budget: Budget = "100s"
    objective: Least = "time"
    worker_hour: Hour = 0.0
    start: Start = "0 h"
    gigabyte: Traffic = 0.0
    watts: Watts = None
    memory: Bound = None
    interruptions: Interrupted = None
    data: Fetched = None
    stream: Streamed = None
    verify: Verified = 0
    systems: Systems = "all"
    settings: Settings = None
    seed: Seed = 0
    jobs: Jobs = None
    on: JobsOn = "host"

    def request(self, target: str, out: Path | None) -> PlanRequest:
        """The request for a plan. Raises PolyrhythmErrors for what cannot be."""
        from polyrhythm.core.units import duration, size
        from polyrhythm.tools.cli.pairs import pairs
        from polyrhythm.tools.planner.objective import Prices
        from polyrhythm.tools.planner.plan import HERE, PlanRequest, workers_of

        if self.verify < 0:
            raise CompositionError(f"--verify {self.verify} runs nothing: give 1 or more, or leave it out.")
        return PlanRequest(
            target,
            network=self.network or "lan",
            devices=self.device or HERE,
            workers=workers_of(self.workers),
            objective=self.objective,
            prices=Prices(self.worker_hour, self.gigabyte, self.watts, start=duration(self.start)),
            budget=duration(self.budget),
            interruptions=self.interruptions,
            memory=None if self.memory is None else size(self.memory),
            systems=None if self.systems == "all" else [name.strip() for name in self.systems.split(",") if name.strip()],
            settings=pairs(self.settings or (), "--set"),
            seed=self.seed,
            jobs=self.jobs,
            pool=self.on,
            cache=None if out is None else out / "measured",
            data=self._data(),
        )

    def _data(self) -> DataSite | None:
        """Where the data lie, and how many they are."""
        from polyrhythm.core.units import size
        from polyrhythm.tools.planner.data_site import FetchedBefore, FetchedMeanwhile

        if self.data is not None and self.stream is not None:
            raise CompositionError(f"--data {self.data} and --stream {self.stream} were both given: leave one of them out.")
        site, _, nbytes = (self.data or self.stream or "").partition("=")
        if not (self.data or self.stream):
            return None
        if not nbytes:
            raise CompositionError(f"{site} does not say how many data lie where: write SITE=SIZE, such as lab=40GB.")
        return (FetchedMeanwhile if self.stream else FetchedBefore)(site, size(nbytes))


@guarded
@grouped
def plan(
    job: Job,
    target: Goal,
    arguments: Arguments = None,
    *,
    search: SearchOptions,
    out: Where = None,
    since: Since = None,
    proxy: Proxies = None,
    shown: PrintOptions,
) -> None:
    """Search for the way of training that brings JOB to a target with the least time, bytes, money or energy on given machines.

    JOB may be a script of torch.distributed that calls `pr.join()` without a system: systems for that axis, and numbers of ranks.
    """
    from polyrhythm.core.kernel.stopping import exit_code as interrupted
    from polyrhythm.core.kernel.stopping import latest
    from polyrhythm.tools.cli.plan_script import ScriptPlanning, plan_script
    from polyrhythm.tools.cli.planning import Planning
    from polyrhythm.tools.cli.prepare import directory, typed
    from polyrhythm.tools.cli.proxy_planning import TypedProxyPlan
    from polyrhythm.tools.cli.scripts import is_script
    from polyrhythm.tools.planner.answer import INTERRUPTED as STOPPED
    from polyrhythm.tools.planner.plan import HERE

    request, recorded = search.request(target, out), None
    if proxy:
        refuse_with_proxies(search, since, job)
    if since is not None:
        request, recorded = from_record(request, search, since, job)
    if is_script(job):
        if search.verify:
            raise CompositionError(
                f"--verify {search.verify} times steps of jobs, and {job} is a script: leave it out, and see simulate --measure."
            )
        planning = ScriptPlanning(request, job, tuple(arguments or ()))
        raise typer.Exit(plan_script(planning, directory(out), shown.as_json, shown.watched))
    device = None if search.device == HERE else search.device
    asked = typed(job, arguments, max(request.workers), RuntimeOptions("simulator", search.network, device))
    again = shlex.join(["polyrhythm", *sys.argv[1:]])
    if proxy:
        by_proxies = TypedProxyPlan(request, proxy, asked, directory(out), shown.watched, again).make(shown.as_json)
        raise typer.Exit(0 if by_proxies.best is not None else 1)
    made = Planning(request, asked, directory(out), search.verify, shown.watched, again, recorded).make(shown.as_json)
    if made.ended == STOPPED:
        raise typer.Exit(interrupted(latest()))
    raise typer.Exit(0 if made.best is not None else 1)


def from_record(request: PlanRequest, search: SearchOptions, since: Path, job: str) -> tuple[PlanRequest, RecordedRun]:
    """The request with the machines of a recorded run of `job`, and the record.

    Raises CompositionError where that shows none, and for a record of another job, whose steps take other times.
    """
    from polyrhythm.hardware import network as networks
    from polyrhythm.tools.cli.record import read
    from polyrhythm.tools.planner.recorded import RecordedRun
    from polyrhythm.tools.report.diagnosis import united

    if search.device is not None:
        raise CompositionError(f"--from {since} has the machines that its record shows: leave out --device {search.device}, or --from.")
    described = None if search.network is None else networks.load(search.network)
    recorded = RecordedRun(united(read([since]).outcomes), described)
    made = recorded.outcome.settings.get("job", job)
    if Path(made).name != Path(job).name:
        raise CompositionError(
            f"{since} is the record of {made}, and steps of {job} take other times: give the record of a run of {job}, or leave out --from."
        )
    if recorded.workers < 2:
        raise CompositionError(
            f"The run of {since} had one worker, and a plan compares ways of training together: give the record of a run of 2 or more."
        )
    workers = tuple(each for each in request.workers if each <= recorded.workers)
    found = replace(request, network=recorded.network, devices=recorded.fleet, workers=tuple(sorted({*workers, recorded.workers})))
    return found, recorded


def refuse_with_proxies(search: SearchOptions, since: Path | None, job: str) -> None:
    """Raise CompositionError for options that a plan by proxies does not take, and for scripts."""
    from polyrhythm.tools.cli.scripts import is_script

    given = {
        "--from": since is not None,
        "--verify": bool(search.verify),
        "--interruptions": search.interruptions is not None,
        "--memory": search.memory is not None,
        "--data": search.data is not None,
        "--stream": search.stream is not None,
    }
    if wrong := [flag for flag, is_given in given.items() if is_given]:
        raise CompositionError(f"{wrong[0]} is for a model that is tried, and --proxy for one that is not: leave one of them out.")
    if is_script(job):
        raise CompositionError(
            f"--proxy trains smaller versions of a training function, and {job} is a script: give a job with train(worker)."
        )
