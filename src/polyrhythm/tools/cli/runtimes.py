"""The runtimes by the name that `--on` gives. Commands collect the options of runs in `RuntimeOptions`, from which `runtime` makes the
`Simulator`, `Processes` or engine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from typing import get_type_hints

from polyrhythm import launchers
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator.gradients.modes import SideBySide
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, UnknownNameError, unknown
from polyrhythm.hardware import devices
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.chosen import places_typed, some_machines
from polyrhythm.hardware.faults import FaultSource
from polyrhythm.launchers import ENGINES
from polyrhythm.tools.cli.faults import faults
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.pairs import convert, pairs

_CUDA = {"cpu": False, "cuda": True}


def settled(where: RuntimeOptions) -> RuntimeOptions:
    """The options with the runtime filled in: the simulator for a network or device that only it has, else processes."""
    if where.on is not None:
        return where
    virtual = (
        where.network is not None
        or where.machines is not None
        or (where.device is not None and where.device not in _CUDA and _simulated(where.device))
    )
    return replace(where, on="simulator" if virtual else "processes")


def _simulated(device: str) -> bool:
    """True if `device` is one of the simulator's; a file counts, whatever is in it."""
    try:
        devices.load(device)
    except UnknownNameError:
        return False
    except CompositionError:
        return True
    return True


def runtime(where: RuntimeOptions, seed: int) -> Runtime:
    """The runtime of these options. Raises UnknownNameError for names that do not exist, CompositionError for options it has no use for."""
    on = settled(where).on
    assert on is not None
    if where.fast and on != "simulator":
        raise CompositionError(f"--fast is for virtual time, and the run is on {on}: leave it out, or give --on simulator.")
    if on in ENGINES:
        if where.fault or where.faults:
            raise CompositionError(
                f"Faults are for --on processes and --on simulator, and {on} has its own: leave out --fault and --faults."
            )
        return _engine(on, where, seed)
    if where.engine:
        raise CompositionError(f"--engine {where.engine[0]} is for --on {', '.join(ENGINES)}: leave it out, or give one of these.")
    if on not in RUNTIMES:
        raise unknown("runtime", on, [*RUNTIMES, *ENGINES])
    return RUNTIMES[on](where, seed)


def _simulator(where: RuntimeOptions, seed: int) -> Runtime:
    if where.timeout is not None:
        raise CompositionError(
            f"--timeout {where.timeout:g} is for real processes: in virtual time a deadlock is detected at once. "
            "Leave out --timeout, or give --on processes."
        )
    network, machines = where.network or "lan", where.device or "cpu-core"
    chosen = Simulator(network=network, devices=machines, seed=seed, faults=_faults(where))
    if where.fast:
        chosen = replace(chosen, gradients=SideBySide())
    networks.load(network)  # refused now, not when the first run begins
    if where.machines is None:
        return chosen
    some, them = some_machines(network, machines, *places_typed(where.machines))
    return replace(chosen, network=some, devices=them)


def _processes(where: RuntimeOptions, seed: int) -> Runtime:
    if where.machines is not None:
        raise CompositionError(f"--machines {where.machines} is for --on simulator: real workers run where they are started. Leave it out.")
    if where.network is not None:
        raise CompositionError(
            f"--network {where.network} is for --on simulator: real processes use the real network. "
            "Leave out --network, or give --on simulator."
        )
    chosen = Processes(cuda=_cuda(where.device), timeout=where.timeout)
    injected = _faults(where)
    return replace(chosen, faults=injected, seed=seed) if injected else chosen


def _faults(where: RuntimeOptions) -> tuple[FaultSource, ...]:
    return faults(where.fault or (), where.faults)


def _engine(name: str, where: RuntimeOptions, seed: int) -> Runtime:
    for flag, given in (("--network", where.network), ("--device", where.device), ("--machines", where.machines)):
        if given is not None:
            raise CompositionError(f"{flag} {given} has no meaning for --on {name}, which runs on the engine's own machines: leave it out.")
    kind = launchers.find(name)
    kinds = get_type_hints(kind)
    options = pairs(where.engine or (), "--engine")
    for key in options:
        if key not in kinds or key == "seed":
            raise unknown(f"option of {name}", key, [each for each in kinds if each != "seed"])
    for parameter in signature(kind).parameters.values():
        if parameter.default is parameter.empty and parameter.name not in options:
            raise CompositionError(f"{name} needs the option {parameter.name}: give --engine {parameter.name}=...")
    chosen = {key: convert(name, key, text, kinds[key]) for key, text in options.items()}
    runtime: Runtime = kind(**chosen, timeout=where.timeout, seed=seed)
    return runtime


def _cuda(device: str | None) -> bool | None:
    """True if real processes are to compute on CUDA devices; None where it was not given."""
    if device is None or device in _CUDA:
        return None if device is None else _CUDA[device]
    with suppress(CompositionError):  # a missing file is not an error here
        try:
            devices.load(device)
        except UnknownNameError:
            raise unknown("device", device, [*_CUDA, *devices.DEVICES]) from None
    raise CompositionError(
        f"--device {device} is for --on simulator: real processes compute on this machine's devices. Give cpu or cuda, or --on simulator."
    )


RUNTIMES: dict[str, Callable[[RuntimeOptions, int], Runtime]] = {"processes": _processes, "simulator": _simulator}
