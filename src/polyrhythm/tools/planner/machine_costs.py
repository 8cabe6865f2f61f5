"""What the machines and lines of one candidate cost, hold and risk: from the terms of its workers' machines, else as for all machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from polyrhythm.core.kernel.events import AnyEvent, Carried
from polyrhythm.core.units import show_bytes
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.meters import HostTraffic, LineUse, metered
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.interruptions import Interruptions
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.products import product


def terms_of(devices: Fleet, workers: int) -> list[MachineTerms]:
    """The terms of the machine of each worker."""
    return [devices.terms_of(worker) for worker in range(workers)]


def priced(objective: Objective, devices: Fleet, workers: int, lines: Mapping[str, LineUse]) -> Objective:
    """The objective at the mean prices and watts of these workers, and at the price of a gigabyte that each metered `line` carries.

    Of each line `nbytes` is the part of all bytes that goes over it.
    """
    if not devices.terms and not lines:
        return objective
    prices, terms = objective.prices, terms_of(devices, workers)
    hours = [prices.worker_hour if each.worker_hour is None else each.worker_hour for each in terms]
    watts = [prices.power(each.watts) for each in terms]
    gigabyte = prices.gigabyte + sum(line.nbytes * line.gigabyte for line in lines.values())
    changing = tuple((price, (price.worker_hour - own) / workers) for own, each in zip(hours, terms, strict=True) for price in each.prices)
    return replace(objective, prices=replace(prices, worker_hour=fmean(hours), watts=fmean(watts), gigabyte=gigabyte, changing=changing))


def too_small(devices: Fleet, workers: int, needed: float, most: float) -> str:
    """Why the workers do not all have `needed` bytes of memory, of which the plan lets each have `most`; empty where they do."""
    if needed > most:
        return f"a worker needs {needed / 1e6:.4g} MB, more than the {most / 1e6:.4g} MB of --memory"
    small = [(devices.terms_of(worker).memory, worker) for worker in range(workers) if devices.terms_of(worker).memory < needed]
    if not small:
        return ""
    memory, worker = min(small)
    more = f", as have {len(small) - 1} more" if len(small) > 1 else ""
    return f"a worker needs {needed / 1e6:.4g} MB, and {devices.machine(worker).name} (worker {worker}) has {memory / 1e6:.4g} MB{more}"


def limits_memory(devices: Fleet, most: float) -> bool:
    """True if any worker has less than all memory there is."""
    return most < math.inf or any(each.memory < math.inf for each in devices.terms)


def too_much(lines: Mapping[str, LineUse], nbytes: float) -> str:
    """Why a run that sends so many bytes exceeds the cap of a line; empty where it does not."""
    for name, line in lines.items():
        if (carried := product(line.nbytes, nbytes)) > line.cap:
            return f"{name} would carry {show_bytes(carried)}, more than the {show_bytes(line.cap)} that it may"
    return ""


def interruptions_of(devices: Fleet, workers: int, given: Interruptions | None) -> Interruptions | None:
    """The interruptions of these workers: as given for all, else at the mean rate of their machines, with the shortest notice of any."""
    terms = terms_of(devices, workers)
    if given is not None or all(each.interruptions is None for each in terms):
        return given
    notice = min((each.notice for each in terms if each.interruptions), default=0.0)
    return Interruptions(fmean(each.interruptions or 0.0 for each in terms), notice=notice)


def lines_of(events: Sequence[AnyEvent], network: Network, workers: int) -> dict[str, LineUse]:
    """The part of all bytes that each metered line of the network has carried, as far as connections were counted."""
    meters = {site.name: site.meter for site in network.sites if site.meter is not None}
    if not meters:
        return {}
    last = {(each.actor, each.to): each for each in events if isinstance(each, Carried)}
    traffic = []
    for each in last.values():
        hosts = [network.host_of(actor, workers) for actor in (each.actor, each.to)]
        sites = [network.sites[network.site_of(host, workers)].name for host in hosts]
        traffic.append(HostTraffic(f"host/{hosts[0]}", f"host/{hosts[1]}", sites[0], sites[1], float(each.nbytes)))
    whole = sum(each.nbytes for each in traffic)
    return {name: line._replace(nbytes=line.nbytes / whole) for name, line in metered(meters, traffic).items()} if whole else {}
