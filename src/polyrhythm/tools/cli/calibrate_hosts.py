"""`polyrhythm calibrate --hosts`: measures the machines and the lines of several hosts over SSH, into files for `plan` and `run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import msgspec

from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import devices
from polyrhythm.hardware.machine_terms import PLAIN
from polyrhythm.tools.cli.calibrated import figures, show, write_network
from polyrhythm.tools.cli.failures import notice
from polyrhythm.tools.cli.output import console, print_json, reserved
from polyrhythm.tools.cli.pairs import pairs
from polyrhythm.tools.cli.prepare import directory, own_arguments
from polyrhythm.tools.cli.timing_options import TimingOptions, link_progress
from polyrhythm.tools.measuring.hosts.host_list import HostList, hosts_typed
from polyrhythm.tools.measuring.hosts.host_messages import TimeSteps
from polyrhythm.tools.measuring.hosts.host_survey import HostSurvey, SurveyedMachine
from polyrhythm.workloads.load import file_of, load_workload


@dataclass(frozen=True, slots=True)
class HostSteps:
    """The JOB whose steps are timed, as it was typed, with its own arguments."""

    job: str | None
    arguments: tuple[str, ...]
    timing: TimingOptions

    def order(self) -> TimeSteps | None:
        """What the hosts are told; None without a JOB. Raises PolyrhythmErrors for what cannot be, before any host is asked."""
        self.timing.refuse_without(self.job)
        if self.job is None:
            return None
        (workers, steps, seed), strategy = self.timing.numbers(), self.timing.strategy
        settings = pairs(self.timing.settings, "--set")
        with own_arguments(self.job, self.arguments):
            load_workload(self.job, settings)
        given, source = self.job, None
        if (file := file_of(self.job)) is not None:
            source = file.read_text(encoding="utf-8")
            given = file.name + ("" if Path(self.job) == file else f":{self.job.rpartition(':')[2]}")
        packed = b"" if strategy is None else cloudpickle.dumps(strategy)
        return TimeSteps(given, source, self.arguments, settings, packed, workers, steps, seed)


def typed_hosts(hosts: str | None, ssh: str | None, python: str | None) -> HostList:
    """The hosts as they were typed. Raises CompositionError for options without hosts, and for hosts that cannot be."""
    if hosts is None:
        flag = "--ssh" if ssh is not None else "--python"
        raise CompositionError(f"{flag} is for hosts that are reached over SSH, and none was given: give --hosts, or leave {flag} out.")
    return hosts_typed(hosts, ssh or "", python or "")


def measure_hosts(listed: HostList, steps: HostSteps, out: Path | None, as_json: bool) -> None:
    """Measure, and show or write what was found."""
    with ExitStack() as held:
        held.enter_context(reserved(as_json))
        order, kept = steps.order(), directory(out)
        found = HostSurvey(listed, notice, link_progress()).measure(order)
    if kept is not None:
        write_machines(kept, found.machines)
        write_network(kept, found.network)
    if as_json:
        print_json({**figures(None, found.network, found.local), "devices": [each.machine for each in found.machines]})
        return
    for line in _machine_lines(found.machines):
        console().print(line)
    show(None, found.network, found.local)


def write_machines(kept: Path, machines: tuple[SurveyedMachine, ...]) -> None:
    """A file for each machine that was timed, and device.json, which has them all in the order of the hosts."""
    timed = [each for each in machines if each.machine is not None]
    if not timed:
        return
    for each in timed:
        assert each.machine is not None
        (kept / f"{each.name}.json").write_text(devices.device_json(each.machine, each.terms), encoding="utf-8")
    every = {"name": "measured", "machines": [f"{each.name}.json" for each in timed]}
    path = kept / devices.FILE
    path.write_text(msgspec.json.format(msgspec.json.encode(every), indent=2).decode() + "\n", encoding="utf-8")
    notice(f"wrote {path}, for --devices, and a file beside it for each machine")


def _machine_lines(machines: tuple[SurveyedMachine, ...]) -> Iterator[str]:
    for each in machines:
        if isinstance(each.machine, devices.Device):
            speed = f"{each.machine.flops / 1e9:.4g} GFLOPS, and {show_seconds(each.machine.overhead_seconds)} for each step besides"
        elif each.machine is not None:
            speed = f"{show_seconds(sum(each.machine.seconds_per_step) / len(each.machine.seconds_per_step))} for a step of the JOB"
        else:
            speed = "not timed"
        memory = "" if each.terms == PLAIN else f"; {show_bytes(each.terms.memory)} of memory for a worker"
        yield f"{each.name}: {speed}{memory}"
