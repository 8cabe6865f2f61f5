"""A metric that a program prints, read from its lines: "epoch 3 loss: 0.52", "{'loss': 0.52}", "loss=tensor(0.52)"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

_LINE_ENDS = re.compile(r"[\r\n]")
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.]*\w)"


class PrintedMetric:
    """A stream like `stream`, which calls `report` with each finite value of the metric that is printed to it."""

    def __init__(self, stream: Any, metric: str, report: Callable[[dict[str, float]], None]) -> None:
        self._stream = stream
        self._metric = metric
        self._report = report
        name = rf"(?<![\w.-]){re.escape(metric)}['\"]?"
        self._pattern = re.compile(rf"{name}(?:\s*[:=|]\s*|\s+is\s+|\s+)(?:tensor\(|np\.float\d+\(|['\"])?{_NUMBER}", re.IGNORECASE)
        self._partial = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Print it, and read the lines that it completes."""
        written: int = self._stream.write(text)
        *lines, self._partial = _LINE_ENDS.split(self._partial + text)
        for line in lines:
            values = [float(each) for each in self._pattern.findall(line)]
            if values and math.isfinite(values[-1]):
                self._report({self._metric: values[-1]})
        return written

    def writelines(self, lines: list[str]) -> None:
        """Print them."""
        for line in lines:
            self.write(line)
