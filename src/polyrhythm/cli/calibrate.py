"""`polyrhythm calibrate`: how long a step takes here, and what joins the hosts, as files for the simulator and the lab."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyrhythm.cli.failures import guarded, say
from polyrhythm.cli.options import Arguments, Json, Options, Seed, Settings

if TYPE_CHECKING:
    from polyrhythm.hardware.devices import Profile
    from polyrhythm.hardware.network import Network
    from polyrhythm.hardware.placement import Local
    from polyrhythm.processes.place import Place

Job = Annotated[
    str | None, typer.Argument(metavar="[JOB]", help="train.py, train.py:function or a bundled workload; without one, links only.")
]
Workers = Annotated[int, typer.Option("--workers", metavar="N", help="How many train on this host at once, and so share its cores.")]
Steps = Annotated[int, typer.Option("--steps", metavar="N", help="How many steps of each to time, after ten to warm up.")]
System = Annotated[
    str | None, typer.Option("--system", metavar="NAME", help="Time what this system computes too; without it each worker trains alone.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write device.json and network.json there.")]

_BITS = 8


@guarded
def calibrate(
    job: Job = None,
    arguments: Arguments = None,
    workers: Workers = 1,
    steps: Steps = 30,
    system: System = None,
    seed: Seed = 0,
    settings: Settings = None,
    options: Options = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure steps of JOB on this host, and, where RANK and WORLD_SIZE are set, the network between the hosts."""
    from polyrhythm.cli.output import print_json, reserved
    from polyrhythm.cli.prepare import directory, own_arguments
    from polyrhythm.processes.place import find_place
    from polyrhythm.training.links import local_between

    place = find_place()
    with ExitStack() as held:
        held.enter_context(reserved(as_json))
        if job is not None:
            held.enter_context(own_arguments(job, arguments or []))
        prepared = None if job is None else _timed(job, (workers, steps, seed), system, settings or [], options or [])
        kept = directory(out) if place.rank == 0 else None

        def measure() -> tuple[Profile | None, Local]:
            profile = None if prepared is None else prepared()
            if kept is not None and profile is not None:
                _write_device(kept, profile)  # at once: the network may take long, or fail
            if profile is not None and (timed := len(profile.seconds_per_step)) < steps:
                say(f"{timed} steps were timed and {steps} asked for, because the JOB ended: give it more epochs or smaller batches.")
            return profile, local_between()

        (profile, local), network = (measure(), None) if place.workers < 2 else _joined(place, measure)
    if place.rank > 0:
        return
    if kept is not None and network is not None:
        _write_network(kept, network)
    if as_json:
        print_json(_told(profile, network, local))
    else:
        _show(profile, network, local)


def _timed(job: str, times: tuple[int, int, int], system: str | None, settings: list[str], options: list[str]) -> Any:
    """A function that measures the profile; what cannot be is refused now."""
    from polyrhythm.cli.pairs import pairs
    from polyrhythm.cli.presets import compose
    from polyrhythm.errors import CompositionError
    from polyrhythm.training.calibrate import APART, device_profile
    from polyrhythm.workloads import load

    workers, steps, seed = times
    if workers < 1 or steps < 1:
        raise CompositionError(f"--workers {workers} --steps {steps} times nothing: give 1 or more of each.")
    if options and system is None:
        raise CompositionError("--option is for a --system, and none was given: name the system, or leave the option out.")
    strategy = APART if system is None else compose(system, pairs(options, "--option"))
    train = load(job, pairs(settings, "--set"))
    return lambda: device_profile(train, workers=workers, steps=steps, seed=seed, strategy=strategy)


def _joined(place: Place, measure: Callable[[], tuple[Profile | None, Local]]) -> tuple[tuple[Profile | None, Local], Network]:
    """What `measure` finds at rank 0, and the network between this process and those that were started with it."""
    from polyrhythm.hardware.placement import Local
    from polyrhythm.pieces.terms import Place as Rank
    from polyrhythm.processes.join import enter
    from polyrhythm.training.links import congestion_here, network_between, survey_job

    with enter(survey_job(place.workers), lambda event: None, place) as stage:
        # all have met: the others wait in the first message of the survey meanwhile, and do not disturb
        found = measure() if place.rank == 0 else (None, Local())
        return found, network_between(stage, Rank(place.rank, place.workers, 0), "measured", found[1], congestion_here())


def _write_device(directory: Path, profile: Profile) -> None:
    import msgspec

    from polyrhythm.hardware import devices

    path = directory / devices.FILE
    path.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n")
    say(f"wrote {path}, for --device")


def _write_network(directory: Path, network: Network) -> None:
    from polyrhythm.hardware import network as networks

    path = directory / networks.FILE
    path.write_text(networks.to_json(network), encoding="utf-8")
    say(f"wrote {path}, for --network")


def _told(profile: Profile | None, network: Network | None, local: Local) -> dict[str, Any]:
    """What `--json` prints: alpha in seconds one way, beta in seconds a byte."""
    within = {"alpha": local.latency, "beta": 1 / local.bandwidth}
    links, hosts = ([], []) if network is None else (_links(network), _hosts(network))
    return {"device": profile, "local": within, "links": links, "hosts": hosts}


def _links(network: Network) -> list[dict[str, Any]]:
    names = [site.name for site in network.sites]
    pairs = [(a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
    return [{"from": names[a], "to": names[b], "alpha": network.latency[a][b], "beta": 1 / network.capacity[a][b]} for a, b in pairs]


def _hosts(network: Network) -> list[dict[str, Any]]:
    return [{"name": site.name, "egress": site.egress, "ingress": site.ingress} for site in network.sites]


def _show(profile: Profile | None, network: Network | None, local: Local) -> None:
    """A short table: alpha and beta of each way, and the rate that beta means."""
    from statistics import median

    from rich.table import Table

    from polyrhythm.cli.output import console
    from polyrhythm.units import show_seconds

    out = console()
    if profile is not None:
        steps = profile.seconds_per_step
        spread = f"{show_seconds(min(steps))} to {show_seconds(max(steps))}"
        out.print(f"A step of {profile.name}: {show_seconds(median(steps))} (median of {len(steps)}, {spread})")
        if profile.seconds_per_contribution:
            out.print(f"Merging a contribution: {show_seconds(profile.seconds_per_contribution)}")
    table = Table("from", "to", "alpha, one way", "beta, a MB", "Mbit/s")
    ways = [{"from": "a process", "to": "another of its host", "alpha": local.latency, "beta": 1 / local.bandwidth}]
    for way in ways + ([] if network is None else _links(network)):
        rate = f"{_BITS / way['beta'] / 1e6:,.1f}"
        table.add_row(way["from"], way["to"], show_seconds(way["alpha"]), show_seconds(way["beta"] * 1e6), rate)
    out.print(table)
    for host in [] if network is None else _hosts(network):
        rates = f"{host['egress'] * _BITS / 1e6:,.1f} Mbit/s to all others at once, {host['ingress'] * _BITS / 1e6:,.1f} from them"
        out.print(f"{host['name']}: {rates}")
