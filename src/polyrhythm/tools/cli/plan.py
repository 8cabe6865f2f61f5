"""`polyrhythm plan`: which way of training suits a JOB and machines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Arguments, DeviceName, Job, Json, NetworkName, Quiet, Seed, Settings, path_given

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
Watts = Annotated[float, typer.Option("--watts", metavar="W", help="What one worker draws.")]
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


@guarded
def plan(
    job: Job,
    target: Goal,
    arguments: Arguments = None,
    network: NetworkName = None,
    device: DeviceName = None,
    workers: Counts = "2..8",
    budget: Budget = "100s",
    objective: Least = "time",
    worker_hour: Hour = 0.0,
    gigabyte: Traffic = 0.0,
    watts: Watts = 100.0,
    memory: Bound = None,
    verify: Verified = 0,
    systems: Systems = "all",
    settings: Settings = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    on: JobsOn = "host",
    out: Where = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for the way of training that brings JOB to a target with the least time, bytes, money or energy on given machines."""
    from polyrhythm.core.kernel.stopping import exit_code as interrupted
    from polyrhythm.core.kernel.stopping import latest
    from polyrhythm.core.units import duration, size
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.planning import Planning
    from polyrhythm.tools.cli.prepare import directory, typed
    from polyrhythm.tools.cli.runtimes import RuntimeOptions
    from polyrhythm.tools.planner.answer import INTERRUPTED as STOPPED
    from polyrhythm.tools.planner.objective import Prices
    from polyrhythm.tools.planner.plan import HERE, PlanRequest, workers_of

    request = PlanRequest(
        target,
        network=network or "lan",
        devices=device or HERE,
        workers=workers_of(workers),
        objective=objective,
        prices=Prices(worker_hour, gigabyte, watts),
        budget=duration(budget),
        memory=None if memory is None else size(memory),
        systems=None if systems == "all" else [name.strip() for name in systems.split(",") if name.strip()],
        settings=pairs(settings or (), "--set"),
        seed=seed,
        jobs=jobs,
        pool=on,
        cache=None if out is None else out / "measured",
    )
    asked = typed(job, arguments, max(request.workers), RuntimeOptions("simulator", network, None if device == HERE else device))
    if verify < 0:
        raise CompositionError(f"--verify {verify} runs nothing: give 1 or more, or leave it out.")
    again = shlex.join(["polyrhythm", *sys.argv[1:]])
    made = Planning(request, asked, directory(out), verify, watched=not (as_json or quiet), asked=again).make(as_json)
    if made.ended == STOPPED:
        raise typer.Exit(interrupted(latest()))
    raise typer.Exit(0 if made.best is not None else 1)
