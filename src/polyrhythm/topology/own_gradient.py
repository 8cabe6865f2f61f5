"""The exchange of a worker that is alone in its group: its gradient is stepped on as it lies there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.responses import ApplyInPlace, Response


class OwnGradient:
    """The gradient is the worker's own, sparse or not; nothing is copied, and a parameter without a gradient keeps none."""

    sends: ClassVar = False

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Response:
        return ApplyInPlace()
