"""`polyrhythm calibrate`: measures steps on this host and the network between hosts, into files for the simulator and the lab."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Arguments, Json, Options, Settings, path_given

if TYPE_CHECKING:
    from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
    from polyrhythm.hardware.devices import Profile
    from polyrhythm.hardware.network import Network
    from polyrhythm.hardware.placement import Local
    from polyrhythm.tools.measuring.links import Follow

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

_STEPS = 30
_EVERY = 15.0
"""Seconds between two lines about how far the measuring of the network is."""


@dataclass(frozen=True, slots=True)
class _Timing:
    """The options for timing steps, as they were typed; None and empty for those that were not."""

    system: str | None
    workers: int | None
    steps: int | None
    seed: int | None
    settings: list[str]
    options: list[str]

    def given(self) -> list[str]:
        """The names of those that were."""
        flags = {"--system": self.system, "--workers": self.workers, "--steps": self.steps, "--seed": self.seed}
        named = [flag for flag, value in flags.items() if value is not None]
        return named + ["--set"] * bool(self.settings) + ["--option"] * bool(self.options)


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
) -> None:
    """Measure steps of JOB on this host, and, where RANK and WORLD_SIZE are set, the network between the hosts."""
    from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment
    from polyrhythm.tools.cli.calibrated import figures, show, write_network
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.cli.prepare import directory, own_arguments

    place, timing = find_rank_environment(), _Timing(system, workers, steps, seed, settings or [], options or [])
    with ExitStack() as held:
        held.enter_context(reserved(as_json))
        if job is not None:
            held.enter_context(own_arguments(job, arguments or []))
        timed = _timed(job, timing)
        kept = directory(out) if place.rank == 0 else None
        survey = _HostSurvey(timed, _STEPS if steps is None else steps, kept)
        (profile, local), network = (survey.measure(), None) if place.workers < 2 else _joined(place, survey)
    if place.rank > 0:
        return
    if kept is not None and network is not None:
        write_network(kept, network)
    print_json(figures(profile, network, local)) if as_json else show(profile, network, local)


def _timed(job: str | None, timing: _Timing) -> Callable[[], Profile] | None:
    """A function that measures the profile, if there is a JOB; impossible options are refused now."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.presets import compose
    from polyrhythm.tools.measuring.calibrate import APART, device_profile
    from polyrhythm.workloads import load_workload

    if job is None:
        if given := timing.given():
            raise CompositionError(
                f"{given[0]} needs a JOB whose steps are timed, and none was given: give a JOB, or leave {given[0]} out."
            )
        return None
    workers, steps = 1 if timing.workers is None else timing.workers, _STEPS if timing.steps is None else timing.steps
    if workers < 1 or steps < 1:
        raise CompositionError(f"--workers {workers} --steps {steps} times nothing: give 1 or more of each.")
    if timing.options and timing.system is None:
        raise CompositionError("--option needs a --system, and none was given: name the system, or leave the option out.")
    strategy = APART if timing.system is None else compose(timing.system, pairs(timing.options, "--option"))
    train = load_workload(job, pairs(timing.settings, "--set"))
    return lambda: device_profile(train, workers=workers, steps=steps, seed=timing.seed or 0, strategy=strategy)


def _joined(place: RankEnvironment, survey: _HostSurvey) -> tuple[tuple[Profile | None, Local], Network]:
    """Rank 0's measurements, and the network between this process and those that were started with it."""
    from polyrhythm.core.kernel.group import Group
    from polyrhythm.core.processes.rendezvous.join import enter
    from polyrhythm.hardware.placement import Local
    from polyrhythm.tools.measuring.links import congestion_here, network_between, survey_job, unfollowed

    with enter(survey_job(place.workers), lambda event: None, place) as joined:
        # all have joined: the others wait for the first message of the survey meanwhile, and use no core
        found = survey.measure() if place.rank == 0 else (None, Local())
        group, follow = Group.of_workers(place.workers, place.rank), _progress() if place.rank == 0 else unfollowed
        return found, network_between(joined.context, group, "measured", found[1], congestion_here(), follow)


def _progress() -> Follow:
    """Says every now and then how many pairs of hosts are measured: each is measured alone, so that many take long."""
    last = time.monotonic()

    def show_progress(done: int, pairs: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            notice(f"{done} of {pairs} links are measured")
            last = time.monotonic()

    return show_progress
