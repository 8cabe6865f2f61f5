"""Who is suspected by an observer of beats, and what has changed since it was last asked; `ChildWatch` and `PeerWatch` have one."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.core.processes.runtime.beats import LOOK_SECONDS, SUSPECT, BeatObserver, Liveness, PeerFinding

_LATE_SECONDS = 4 * LOOK_SECONDS


class Suspicions:
    """The suspects of `observer`, as of the last look."""

    def __init__(self, observer: BeatObserver) -> None:
        self._observer = observer
        self._looked = 0.0
        self._verdicts: dict[str, Liveness] = {}

    def forget(self, name: str) -> None:
        """The actor `name` has ended, or is lost."""
        self._verdicts.pop(name, None)

    def look(self, now: float) -> tuple[list[PeerFinding], list[PeerFinding]]:
        """The findings that have changed, `ALIVE` for those that are suspected no more; and those on all suspects.

        Nothing, if the last look was long ago: this process has stood still, and beats may have been dropped meanwhile.
        """
        late, self._looked = now - self._looked > _LATE_SECONDS, now
        if late:
            return [], []
        changes, suspects = [], []
        for name, found in self._observer.findings(now).items():
            if found.verdict in SUSPECT:
                suspects.append(found)
            verdict = found.verdict if found.verdict in SUSPECT else Liveness.ALIVE
            if verdict is not self._verdicts.get(name, Liveness.ALIVE):
                changes.append(replace(found, verdict=verdict))
            self._verdicts[name] = verdict
        return changes, suspects
