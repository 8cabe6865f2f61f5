"""The results of `polyrhythm calibrate`: as files for the simulator and the lab, as a JSON object, and as a table."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from polyrhythm.core.units import show_seconds
from polyrhythm.hardware import devices
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.devices import Machine, Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.placement import Local
from polyrhythm.tools.cli.failures import notice
from polyrhythm.tools.cli.output import console

_BITS = 8


def write_device(directory: Path, machine: Machine) -> Path:
    """device.json, for the simulator."""
    path = directory / devices.FILE
    path.write_text(devices.device_json(machine), encoding="utf-8")
    notice(f"wrote {path}, for --device")
    return path


def write_network(directory: Path, network: Network | None) -> None:
    """network.json, for the simulator and the lab; of one host alone, which has no lines, that there is none is said."""
    path = directory / networks.FILE
    if network is None:
        older = f"{path} is of an earlier calibration" if path.exists() else f"no {networks.FILE} was written"
        notice(f"one host has no lines to others, so {older}: name a network, such as --network lan, or calibrate several hosts")
        return
    path.write_text(network_json(network), encoding="utf-8")
    notice(f"wrote {path}, for --network")


def figures(profile: Profile | None, network: Network | None, local: Local) -> dict[str, Any]:
    """The object that `--json` prints: alpha in seconds one way, beta in seconds a byte."""
    within = {"alpha": local.latency, "beta": 1 / local.bandwidth}
    links, hosts = ([], []) if network is None else (_links(network), _hosts(network))
    return {"device": profile, "local": within, "links": links, "hosts": hosts}


def _links(network: Network) -> list[dict[str, Any]]:
    names = [site.name for site in network.sites]
    pairs = [(a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
    return [{"from": names[a], "to": names[b], "alpha": network.latency[a][b], "beta": 1 / network.capacity[a][b]} for a, b in pairs]


def _hosts(network: Network) -> list[dict[str, Any]]:
    return [{"name": site.name, "egress": site.egress, "ingress": site.ingress} for site in network.sites]


def show(profile: Profile | None, network: Network | None, local: Local) -> None:
    """A short table: alpha and beta of each connection, and the rate that beta means."""
    out = console()
    if profile is not None:
        steps = profile.seconds_per_step
        spread = f"{show_seconds(min(steps))} to {show_seconds(max(steps))}"
        out.print(f"A step of the JOB here: {show_seconds(median(steps))} (median of {len(steps)}, {spread})")
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
