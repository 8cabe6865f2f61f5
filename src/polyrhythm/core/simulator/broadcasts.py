"""Messages to many, charged in closed form: one event for all receivers at a site, and not one flow for each."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.hardware.all_to_all import seconds_per_byte
from polyrhythm.hardware.network import Network


class Broadcasts:
    """The times at which a message to many workers leaves its sender, and arrives: as if all of them sent as much to all at the same time.

    That is exact where they do. What a sender has for a site goes there one after the other.
    """

    def __init__(self, network: Network, workers: int) -> None:
        self._network = network
        self._workers = workers
        self._pace = seconds_per_byte(network, workers)
        self._site = [network.site_of(rank, workers) for rank in range(workers)]
        self._free: dict[str, dict[int, float]] = {}
        self._grouped: dict[str, tuple[Sequence[str], dict[int, list[str]]]] = {}

    def carries(self, sender: str, to: Sequence[str]) -> bool:
        """True if this message is charged so: from a worker to several others, since servers have separate links."""
        return len(to) > 1 and is_worker(sender) and all(map(is_worker, to)) and sender not in to

    def send(self, now: float, sender: str, to: Sequence[str], nbytes: int) -> list[tuple[float, bool, list[str]]]:
        """For each site, the time at which a message of `nbytes` arrives, whether it goes to another site, and the receivers."""
        here, free = self._at(sender), self._free.setdefault(sender, {})
        arrivals = []
        for there, names in self._by_site(sender, to).items():
            free[there] = max(now, free.get(there, 0.0)) + nbytes * self._pace[here, there]
            arrivals.append((free[there] + self._network.site_delay(here, there), here != there, names))
        return arrivals

    def left(self, sender: str, to: str = "") -> float:
        """The time at which all has left that `sender` has sent so far, `to` one worker if given."""
        free = self._free.get(sender)
        if free is None or (to and not is_worker(to)):
            return 0.0
        return free.get(self._at(to), 0.0) if to else max(free.values())

    def _at(self, name: str) -> int:
        """The site of a worker; one that replaces another is at its place."""
        return self._site[rank_of(name) % len(self._site)]

    def _by_site(self, sender: str, to: Sequence[str]) -> dict[int, list[str]]:
        """`to` by site; it is the same at every step, if nobody is lost."""
        known = self._grouped.get(sender)
        if known is None or known[0] != to:
            groups: dict[int, list[str]] = {}
            for name in to:
                groups.setdefault(self._at(name), []).append(name)
            known = self._grouped[sender] = to, groups
        return known[1]
