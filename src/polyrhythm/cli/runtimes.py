"""The runtimes by the name that `--on` gives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from polyrhythm.errors import CompositionError, UnknownNameError, unknown
from polyrhythm.hardware import devices
from polyrhythm.hardware import network as networks
from polyrhythm.kernel.job import Runtime
from polyrhythm.processes import Processes
from polyrhythm.simulator.simulator import Simulator

_CUDA = {"cpu": False, "cuda": True}


def choose(on: str | None, network: str | None, device: str | None) -> str:
    """The runtime that is meant: the simulator where nobody says `on`, but a network or a device that only it has."""
    if on is not None:
        return on
    if network is not None or (device is not None and device not in _CUDA and _simulated(device)):
        return "simulator"
    return "processes"


def _simulated(device: str) -> bool:
    """Whether `device` is one of the simulator's; a file counts, whatever is in it."""
    try:
        devices.load(device)
    except UnknownNameError:
        return False
    except CompositionError:
        return True
    return True


def runtime(on: str, network: str | None, device: str | None, seed: int) -> Runtime:
    """The runtime called `on`; raises UnknownNameError for names that do not exist, and CompositionError for options it has no use for."""
    if on not in RUNTIMES:
        raise unknown("runtime", on, RUNTIMES)
    return RUNTIMES[on](network, device, seed)


def _simulator(network: str | None, device: str | None, seed: int) -> Runtime:
    chosen = Simulator(network=network or "lan", devices=device or "cpu-core", seed=seed)
    networks.load(network or "lan")  # refused now, not when the first run begins
    return chosen


def _processes(network: str | None, device: str | None, seed: int) -> Runtime:
    if network is not None:
        raise CompositionError(
            f"--network {network} is for --on simulator: real processes have the network there is. "
            "Leave out --network, or give --on simulator."
        )
    if device is None:
        return Processes()
    if device in _CUDA:
        return Processes(cuda=_CUDA[device])
    with suppress(CompositionError):  # a file that is not there is no matter of ours
        try:
            devices.load(device)
        except UnknownNameError:
            raise unknown("device", device, [*_CUDA, *devices.DEVICES]) from None
    raise CompositionError(
        f"--device {device} is for --on simulator: real processes compute on what is there. Give cpu or cuda, or --on simulator."
    )


RUNTIMES: dict[str, Callable[[str | None, str | None, int], Runtime]] = {"processes": _processes, "simulator": _simulator}
