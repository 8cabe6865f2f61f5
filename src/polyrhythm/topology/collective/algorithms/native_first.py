"""An algorithm in whose place a runtime may make the sum."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.algorithm import Algorithm


@dataclass(frozen=True, slots=True)
class NativeFirst:
    """The runtime's native sum where it has one, else `algorithm`."""

    algorithm: Algorithm

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """The sum of the `value` of all workers."""
        total = await port.reduce(value, topic, group, self.algorithm)
        return total if total is not None else await self.algorithm.reduce(port, group, value, topic)
