"""The decisions of controllers while runs were under way, as lines in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from polyrhythm.core.kernel.events import Adjusted
from polyrhythm.tools.report.series import Series


@dataclass(frozen=True, slots=True)
class Decided:
    """One worker's values of a setting in one run, for one receiver or for all: each from its time on, the last until the end."""

    series: Series
    actor: str
    receiver: str
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The run and the worker, and to whom."""
        return f"{self.series.label}, {self.actor}" + (f" to {self.receiver}" if self.receiver else "")


def decided(group: Sequence[Series], most: int) -> dict[str, list[Decided]]:
    """The lines by setting, in the order in which settings were first decided; of each at most `most`, the first to have been decided."""
    found: dict[str, dict[tuple[str, str, str], Decided]] = {}
    for one in group:
        lines: list[Decided] = []
        for event in one.outcome.events:
            if isinstance(event, Adjusted):
                of_setting = found.setdefault(event.setting, {})
                key = (one.label, event.actor, event.receiver)
                if key not in of_setting:
                    if len(of_setting) >= most:
                        continue
                    of_setting[key] = Decided(one, event.actor, event.receiver)
                    lines.append(of_setting[key])
                of_setting[key].times.append(event.time)
                of_setting[key].values.append(event.value)
        for line in lines:
            end = max(one.outcome.time or 0.0, line.times[-1])
            line.times.append(end)
            line.values.append(line.values[-1])
    return {setting: list(lines.values()) for setting, lines in found.items()}
