"""`polyrhythm calibrate`: measures steps on this host and the network between hosts, into files for the simulator and the lab."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Arguments, Json, Options, Settings, path_given
from polyrhythm.tools.cli.timing_options import STEPS, TimingOptions, link_progress

if TYPE_CHECKING:
    from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
    from polyrhythm.hardware.devices import Profile
    from polyrhythm.hardware.network import Network
    from polyrhythm.hardware.placement import Local

Job = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="train.py, train.py:function or a bundled workload; without one, only the network is measured."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="How many workers train on this host at the same time, sharing its cores; default 1."),
]
Steps = Annotated[
    int | None, typer.Option("--steps", metavar="N", help="How many steps of each worker to time, after ten warm-up steps; default 30.")
]
System = Annotated[
    str | None,
    typer.Option("--system", metavar="NAME", help="Also time the computation of this system; without it each worker trains alone."),
]
OneSeed = Annotated[int | None, typer.Option("--seed", metavar="S", help="The root of every random stream; default 0.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", parser=path_given, help="Write device.json and network.json there.")]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        metavar="A,B,C|FILE.toml",
        help="Measure these hosts over SSH, all from here: USER@NAME:PORT as ssh knows them, here for this machine, or a file of hosts.",
    ),
]
Ssh = Annotated[str | None, typer.Option("--ssh", metavar="COMMAND", help="How ssh is called, such as 'ssh -i ~/.ssh/lab'; default ssh.")]
Python = Annotated[
    str | None,
    typer.Option("--python", metavar="PATH", help="The Python on the hosts, or its environment, with polyrhythm in it; default python3."),
]


@dataclass(frozen=True, slots=True)
class _HostSurvey:
    """The measurements on this host: steps, where there are any to time, and messages between processes."""

    timed: Callable[[], Profile] | None
    steps: int
    kept: Path | None

    def measure(self) -> tuple[Profile | None, Local]:
        """Time the steps, and write the profile at once: measuring the network may take long, or fail."""
        from polyrhythm.tools.cli.calibrated import write_device
        from polyrhythm.tools.measuring.links import local_between

        profile = None if self.timed is None else self.timed()
        if self.kept is not None and profile is not None:
            write_device(self.kept, profile)
        if profile is not None and (timed := len(profile.seconds_per_step)) < self.steps:
            notice(
                f"{timed} steps were timed of the {self.steps} requested, because the JOB ended: give it more epochs or smaller batches."
            )
        return profile, local_between()


@guarded
def calibrate(
    job: Job = None,
    arguments: Arguments = None,
    workers: Workers = None,
    steps: Steps = None,
    system: System = None,
    seed: OneSeed = None,
    settings: Settings = None,
    options: Options = None,
    out: Out = None,
    as_json: Json = False,
    hosts: Hosts = None,
    ssh: Ssh = None,
    python: Python = None,
) -> None:
    """Measure steps of JOB here or on --hosts, and the network between hosts: of --hosts, or where RANK and WORLD_SIZE are set."""
    from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment
    from polyrhythm.tools.cli.calibrated import figures, show, write_network
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.cli.prepare import directory, own_arguments

    timing = TimingOptions(system, workers, steps, seed, settings or [], options or [])
    if hosts is not None or ssh is not None or python is not None:
        from polyrhythm.tools.cli.calibrate_hosts import HostSteps, measure_hosts, typed_hosts

        measure_hosts(typed_hosts(hosts, ssh, python), HostSteps(job, tuple(arguments or ()), timing), out, as_json)
        return
    place = find_rank_environment()
    with ExitStack() as held:
        held.enter_context(reserved(as_json))
        if job is not None:
            held.enter_context(own_arguments(job, arguments or []))
        timed = _timed(job, timing)
        kept = directory(out) if place.rank == 0 else None
        survey = _HostSurvey(timed, STEPS if steps is None else steps, kept)
        (profile, local), network = (survey.measure(), None) if place.workers < 2 else _joined(place, survey)
    if place.rank > 0:
        return
    if kept is not None:
        write_network(kept, network)
    print_json(figures(profile, network, local)) if as_json else show(profile, network, local)


def _timed(job: str | None, timing: TimingOptions) -> Callable[[], Profile] | None:
    """A function that measures the profile, if there is a JOB; impossible options are refused now."""
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.measuring.calibrate import APART, device_profile
    from polyrhythm.workloads import load_workload

    timing.refuse_without(job)
    if job is None:
        return None
    workers, steps, seed = timing.numbers()
    strategy = timing.strategy or APART
    train = load_workload(job, pairs(timing.settings, "--set"))
    return lambda: device_profile(train, workers=workers, steps=steps, seed=seed, strategy=strategy)


def _joined(place: RankEnvironment, survey: _HostSurvey) -> tuple[tuple[Profile | None, Local], Network]:
    """Rank 0's measurements, and the network between this process and those that were started with it."""
    from polyrhythm.core.kernel.group import Group
    from polyrhythm.core.processes.rendezvous.join import enter
    from polyrhythm.hardware.placement import Local
    from polyrhythm.tools.measuring.links import congestion_here, network_between, survey_job, unfollowed

    with enter(survey_job(place.workers), lambda event: None, place) as joined:
        # all have joined: the others wait for the first message of the survey meanwhile, and use no core
        found = survey.measure() if place.rank == 0 else (None, Local())
        group, follow = Group.of_workers(place.workers, place.rank), link_progress() if place.rank == 0 else unfollowed
        return found, network_between(joined.context, group, "measured", found[1], congestion_here(), follow)
