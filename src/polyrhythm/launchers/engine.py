"""The common part of all engines: runtimes whose workers are tasks of a driver. Every engine inherits it, and `run` calls `execute`."""

from __future__ import annotations

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending, Work
from polyrhythm.launchers.driver import drive
from polyrhythm.launchers.protocol import Launcher


class EngineRuntime:
    """The part of a runtime that is the same for every `Launcher`; for classes that are one."""

    __slots__ = ()

    @property
    def network_name(self) -> None:
        """The network is real."""

    @property
    def echoes(self) -> bool:
        """Most engines show at the driver what tasks print."""
        return False

    @property
    def starts_alone(self) -> bool:
        """Most engines start a task again, or a task starts its process again."""
        return True

    def locations(self, workers: int) -> None:
        """Known when the engine has placed the tasks."""

    def execute(self: Launcher, work: Work, record: Recorder) -> Ending:
        """Run `work` to its end.

        Raises CompositionError if the engine cannot be had; else as `Processes`: WorkerFailed naming a worker that raised or was lost, the
        worker's own error if that is a PolyrhythmError. No task is left afterwards.
        """
        return drive(self, work, record)
