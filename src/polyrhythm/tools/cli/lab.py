"""`polyrhythm lab`: a command on several emulated hosts."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Json, Seed

if TYPE_CHECKING:
    from polyrhythm.tools.emulation.lab import LabResult

Hosts = Annotated[int, typer.Option("--hosts", metavar="N", help="How many hosts; each runs the command once.")]
LabNetwork = Annotated[
    str,
    typer.Option(
        "--network", metavar="NAME|PATH", help="The network between them: a preset, a JSON file, or a directory written by calibrate."
    ),
]
Jitter = Annotated[
    list[str] | None,
    typer.Option(
        "--jitter-ms", metavar="MS", help="Vary every latency by up to plus or minus MS; FROM:TO=MS for one pair; may be repeated."
    ),
]
Loss = Annotated[
    list[str] | None,
    typer.Option("--loss", metavar="P", help="The probability that a packet is lost; FROM:TO=P for one pair; may be repeated."),
]
Congestion = Annotated[
    str, typer.Option("--congestion", metavar="NAME", help="The TCP congestion control of the hosts; default: the machine's own.")
]
CountHeaders = Annotated[bool, typer.Option("--count-headers", help="Let packet headers take bandwidth too, as on a real line.")]
Plain = Annotated[bool, typer.Option("--quiet", help="Print the hosts' lines without prefixes, and no messages of the lab.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND ...", help="What each host runs.")]

_MS = 1e-3
_CARRIED = 1e9 / 8
_BITS = 8
_SIGNALLED = 128


@guarded
def lab(
    hosts: Hosts,
    network: LabNetwork,
    command: Command = None,
    jitter_ms: Jitter = None,
    loss: Loss = None,
    congestion: Congestion = "",
    count_headers: CountHeaders = False,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Plain = False,
) -> None:
    """Run a command on several emulated hosts of this machine, connected by one of the simulator's networks (root only)."""
    from polyrhythm.hardware import network as networks
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.emulation.impairments import Impairments, amount
    from polyrhythm.tools.emulation.lab import Lab, run

    joined = networks.load(network)
    impairments = Impairments(amount("--jitter-ms", jitter_ms or [], hosts, _MS), amount("--loss", loss or [], hosts), seed)
    chosen = Lab(joined, hosts, impairments, congestion, count_headers)
    if chosen.fastest > _CARRIED and not quiet:
        notice(
            f"{joined.name} gives a host {chosen.fastest * _BITS / 1e9:g} Gbit/s, and the lab is true to about {_CARRIED * _BITS / 1e9:g}: "
            "expect less than the network allows"
        )
    with _ended_by(signal.SIGTERM, signal.SIGHUP):
        outcome = run(chosen, command or [], _printer(as_json, quiet))
    if as_json:
        print_json({"network": joined.name, "hosts": hosts} | _summary(outcome))
    if outcome.failed and not quiet:
        notice("; ".join(f"host {host} failed with {_how(outcome.codes[host])}" for host in outcome.failed) + "; what still ran was ended")
    raise typer.Exit(outcome.code)


def _how(code: int) -> str:
    """An exit code as a shell shows it."""
    numbers = {int(number): number.name for number in signal.Signals}
    return numbers.get(code - _SIGNALLED, f"exit code {code}")


def _summary(outcome: LabResult) -> dict[str, Any]:
    """Bytes and packets by [from][to]."""
    traffic = outcome.traffic
    counted = {"bytes_sent": traffic.nbytes, "packets_sent": traffic.packets, "packets_dropped": traffic.dropped}
    return {"seconds": outcome.seconds, "codes": outcome.codes, "failed": outcome.failed} | counted


def _printer(as_json: bool, quiet: bool) -> Callable[[int, str, str], None]:
    """A function that prints the hosts' lines: each to our own output of that name, or all to stderr where stdout is for a JSON object."""

    def show(host: int, name: str, line: str) -> None:
        typer.echo(line if quiet else f"host {host} | {line}", err=as_json or name == "stderr")

    return show


@contextmanager
def _ended_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals end the program as an exception, so that what it started is ended first."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(_SIGNALLED + number)

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
