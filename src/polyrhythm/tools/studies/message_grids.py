"""Messages back and forth between two workers, by their size: the micro-benchmark of an interconnect, real or simulated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec
import torch

from polyrhythm.core.kernel.job import Job, Runtime, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import FIRST, rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware import network as known_networks
from polyrhythm.tools.measuring.line_fit import LineFit, fitted
from polyrhythm.tools.studies.grid import Cell, Level, counts, crossed

_ROUNDS = 25
_SIZE = re.compile(r"one way, (\d+) bytes")
SIZES = (1024, 65536, 262144, 1048576, 4194304, 16777216)


class MessageGrid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [messages]: two real processes of this host send messages of `nbytes` to each other."""

    nbytes: tuple[int, ...] = SIZES

    @property
    def about(self) -> str:
        """What is measured."""
        return "messages between two real processes of this host; real seconds one way, half of a round trip"

    @property
    def units(self) -> Mapping[str, str]:
        """All are seconds."""
        return {_quantity(size): "s" for size in self.nbytes}

    def check(self) -> None:
        """Raise CompositionError for sizes that are none."""
        counts("nbytes", self.nbytes)

    def cells(self) -> list[dict[str, Level]]:
        """One cell: all sizes are measured together."""
        return [{"interconnect": "this host"}]

    def refused(self, cell: Cell) -> str:
        """Nothing is: of the two processes one waits for the other."""
        return ""

    def decisive(self, cell: Cell) -> Mapping[str, Any]:
        """The sizes."""
        return {**cell, "nbytes": self.nbytes}

    def measure(self, cell: Cell, repetition: int) -> Mapping[str, float]:
        """The median of several round trips of each size, halved."""
        return _measured(Processes(cuda=False), self.nbytes)


class VirtualMessageGrid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [virtual_messages]: two simulated hosts on each of `networks` send messages of `nbytes` to each other."""

    networks: tuple[str, ...] = ("lan",)
    nbytes: tuple[int, ...] = SIZES

    @property
    def about(self) -> str:
        """What is measured."""
        return "messages between two simulated hosts; virtual seconds one way, half of a round trip"

    @property
    def units(self) -> Mapping[str, str]:
        """All are seconds."""
        return {_quantity(size): "s" for size in self.nbytes}

    def check(self) -> None:
        """Raise PolyrhythmErrors for networks that do not exist, and sizes that are none."""
        counts("nbytes", self.nbytes)
        for network in self.networks:
            known_networks.load(network)

    def cells(self) -> list[dict[str, Level]]:
        """One for each network: all sizes are measured together."""
        return crossed({"interconnect": self.networks})

    def refused(self, cell: Cell) -> str:
        """Nothing is."""
        return ""

    def decisive(self, cell: Cell) -> Mapping[str, Any]:
        """The network, and the sizes."""
        return {**cell, "nbytes": self.nbytes}

    def measure(self, cell: Cell, repetition: int) -> Mapping[str, float]:
        """The median of several round trips of each size, halved."""
        return _measured(Simulator(network=str(cell["interconnect"]), seed=repetition), self.nbytes)


def interconnect(medians: Mapping[str, float]) -> LineFit | None:
    """The fit T = α + β n of the median seconds of messages by their quantities: `start` is α, `slope` β.

    None where these are no quantities of messages, or fewer than three.
    """
    points = [(float(found[1]), seconds) for name, seconds in medians.items() if (found := _SIZE.fullmatch(name))]
    if len(points) < 3:
        return None
    sizes, seconds = zip(*points, strict=True)
    return fitted(sizes, seconds, [1 / each**2 for each in seconds])  # relative errors: the smallest message decides the latency


def _quantity(nbytes: int) -> str:
    return f"one way, {nbytes} bytes"


def _measured(on: Runtime, sizes: Sequence[int]) -> dict[str, float]:
    ending = on.execute(_job(tuple(sizes)), lambda event: None)
    result = ending.results[FIRST]
    assert result is not None
    return {_quantity(size): seconds for size, seconds in zip(sizes, result.numbers, strict=True)}


def _job(sizes: Sequence[int]) -> Job:
    def program(context: WorkerContext) -> Message | None:
        other = worker(1 - rank_of(context.port.name))
        if rank_of(context.port.name):
            context.perform(_answer(context.port, other, sizes))
            return None
        return Message("seconds", tuple(context.perform(_ask(context.port, other, sizes))))

    return Job(2, 0, program, _no_service, lambda name: True)


async def _ask(port: Port, other: str, sizes: Sequence[int]) -> list[float]:
    found = []
    for size in sizes:
        rounds = []
        for _ in range(_ROUNDS):
            began = port.now()
            await port.send(other, _message(size))
            await port.receive("volley", other)
            rounds.append((port.now() - began) / 2)
        found.append(median(rounds[1:]))  # the first opens connections and buffers
    return found


async def _answer(port: Port, other: str, sizes: Sequence[int]) -> None:
    for size in sizes:
        for _ in range(_ROUNDS):
            await port.receive("volley", other)
            await port.send(other, _message(size))


def _message(size: int) -> Message:
    return Message("volley", tensors=(torch.zeros(size, dtype=torch.uint8),))


async def _no_service(port: Port, record: object) -> None:
    """The job has no servers."""
