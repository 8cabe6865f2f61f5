"""The bandwidth between the devices of one host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

MOST_DEVICES = 16
"""Devices of one host for which the best ring of every subset is computed exactly."""
_NVLINK = 25e9
_PCIE = {"PIX": 12e9, "PXB": 12e9, "PHB": 10e9, "NODE": 8e9, "SYS": 6e9}
"""Bytes per second by the words of `nvidia-smi topo -m`: one NVLink, and ways over PCIe; estimates, since the command gives no figures."""


@dataclass(frozen=True, slots=True)
@checked
class DeviceTopology:
    """The bytes per second between each two devices of a host, in both directions: a symmetric matrix, whose diagonal is not used.

    Raises `CompositionError` for a matrix that is not square and symmetric, bandwidths that are not above zero, and more than 16 devices.

    Examples:
        >>> DeviceTopology.groups([2, 2], within=50e9, between=10e9).bandwidth[0]
        (0.0, 50000000000.0, 10000000000.0, 10000000000.0)
    """

    bandwidth: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.bandwidth)
        if size > MOST_DEVICES:
            raise CompositionError(f"A topology of {size} devices was given, and {MOST_DEVICES} are possible: divide the host in two.")
        if any(len(row) != size for row in self.bandwidth):
            raise CompositionError(f"A topology of {size} devices needs {size} bandwidths in every row. Give a square matrix.")
        for one in range(size):
            for other in range(one):
                there, back = self.bandwidth[one][other], self.bandwidth[other][one]
                if not there > 0 or there != back:
                    raise CompositionError(
                        f"Between the devices {other} and {one} of a topology are {back} and {there} bytes per second: give the same "
                        "number above zero for both directions."
                    )

    @classmethod
    def groups(cls, sizes: Sequence[int], within: float, between: float) -> DeviceTopology:
        """Devices in groups: `within` bytes per second in a group, `between` to other groups."""
        group = [number for number, size in enumerate(sizes) for _ in range(size)]
        return cls(tuple(tuple(0.0 if a == b else within if g == h else between for b, h in enumerate(group)) for a, g in enumerate(group)))

    @classmethod
    def links(cls, devices: int, links: Sequence[tuple[int, int, float]], otherwise: float) -> DeviceTopology:
        """Devices with the given links, as (device, device, bytes per second), and `otherwise` between all others."""
        table = [[0.0 if a == b else otherwise for b in range(devices)] for a in range(devices)]
        for one, other, rate in links:
            if not (0 <= one < devices and 0 <= other < devices) or one == other:
                raise CompositionError(f"A link from device {one} to {other} was given for {devices} devices: they count from 0.")
            table[one][other] = table[other][one] = rate
        return cls(tuple(map(tuple, table)))

    @classmethod
    def cube_mesh(cls, link: float = _NVLINK, otherwise: float = _PCIE["SYS"]) -> DeviceTopology:
        """Eight devices as in a DGX-1 with V100: two quads, each fully connected, some pairs by two links, and four links between them."""
        double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
        single = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]
        return cls.links(8, [(a, b, 2 * link) for a, b in double] + [(a, b, link) for a, b in single], otherwise)

    @classmethod
    def from_smi(cls, text: str, link: float = _NVLINK) -> DeviceTopology:
        """The matrix that `nvidia-smi topo -m` prints; `link` is of one NVLink. Raises `CompositionError` for other text."""
        rows = [line.split() for line in text.splitlines() if re.match(r"\s*GPU\d+\s+(X|NV\d+|PIX|PXB|PHB|NODE|SYS)\s", line)]
        count = len(rows)
        if not count or any(len(row) <= count for row in rows):
            raise CompositionError("The text is no matrix of `nvidia-smi topo -m`: give what that command prints, with a row for each GPU.")
        return cls(tuple(tuple(_rate(word, link) for word in row[1 : count + 1]) for row in rows))


def _rate(word: str, link: float) -> float:
    """The bytes per second that a word of the matrix stands for."""
    if word == "X":
        return 0.0
    if word.startswith("NV") and word[2:].isdecimal():
        return int(word[2:]) * link
    if word not in _PCIE:
        raise CompositionError(f"{word!r} is no connection that `nvidia-smi topo -m` prints: there are X, NV1 …, {', '.join(_PCIE)}.")
    return _PCIE[word]
