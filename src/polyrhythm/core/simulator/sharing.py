"""The flows that share links, their rates, and hence the time at which each flow ends."""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush

from polyrhythm.core.simulator.connection import Connection, GroupOfFlows, SharedLink
from polyrhythm.core.simulator.filling import fill_few
from polyrhythm.core.simulator.flow_group import FlowGroup
from polyrhythm.core.simulator.routes import Routes

FEW = 32
"""Up to this many connected flows are solved one by one; more become a `GroupOfFlows`. The two cost about the same here."""

TIDY = 1024


class Sharing:
    """The flows on the links. After a change `solve` must be called before time moves; `changed` is true then.

    Only flows that share a link with a changed one, directly or through other flows, are solved again. `ends` is a heap of (time,
    key, generation, flow or group), of which only the entries with the flow's current generation are valid.
    """

    __slots__ = ("_expected", "_few", "_groups", "_groups_made", "_routes", "_stamp", "_started", "_tidy_at", "_touched", "changed", "ends")

    def __init__(self, routes: Routes, few: int = FEW) -> None:
        self._routes = routes
        self._few = few
        self._started: list[Connection] = []
        self._touched: list[SharedLink] = []
        self._groups: list[GroupOfFlows] = []  # those with changes since they were solved
        self._groups_made = 0
        self.changed = False
        """True if `solve` has something to do."""
        self._stamp = 0
        self._expected = 0
        self._tidy_at = TIDY
        self.ends: list[tuple[float, int, int, Connection | GroupOfFlows]] = []

    def next_end(self) -> float:
        """The time at which the next flow ends; math.inf if none does. Nothing may have changed since `solve`."""
        ends = self.ends
        while ends and ends[0][2] != ends[0][3].generation:
            heappop(ends)
        return ends[0][0] if ends else math.inf

    def first_end(self) -> float:
        """The first time in the heap, perhaps of an end that was moved; math.inf for none."""
        return self.ends[0][0] if self.ends else math.inf

    def take_ended(self, limit: float) -> list[Connection]:
        """The flows that end until `limit`, by their keys; each must be detached or restarted."""
        ends = self.ends
        ended: list[Connection] = []
        while ends and ends[0][0] <= limit:
            _, _, generation, flow = heappop(ends)
            if generation == flow.generation:
                flow.collect_ended(limit, ended)
        if len(ended) > 1:
            ended.sort(key=key_of)
        return ended

    def begin(self, connection: Connection) -> None:
        """Let the `remaining` bytes of `connection` flow from now on."""
        self._started.append(connection)
        self.changed = True

    def restart(self, connection: Connection, nbytes: int, now: float) -> None:
        """Let `nbytes` follow on a flow that has just ended."""
        if connection.group is not None:
            self._disturb(connection.group)
            connection.group.restart(connection, nbytes, now)
        else:  # the same flows as before: no rate changes
            connection.remaining = nbytes
            self._expect(connection, now)

    def detach(self, connection: Connection, now: float) -> None:
        """Take a flow off its links, and note what remains of it."""
        if connection.group is not None:
            self._disturb(connection.group)
            connection.group.remove(connection, now)
        else:
            connection.remaining -= connection.rate * (now - connection.since)
        connection.rate = 0.0
        connection.generation += 1
        connection.attached = False
        key = connection.key
        for link in connection.links:
            link.flows.pop(key, None)  # a shared medium is on the path twice
            if not link.flows:
                link.group = None
            elif link.group is None:
                self._touched.append(link)
                self.changed = True

    def resize(self, link: SharedLink) -> None:
        """The capacity of `link` has changed, and with it what its flows could have alone."""
        if link.group is not None:
            self._disturb(link.group)
        else:
            self._touched.append(link)
            self.changed = True

    def solve(self, now: float) -> None:
        """Give rates to all flows that changed since the last call; no time has passed since."""
        seeds = self._attach(now) if self._started else []
        if self._groups:
            seeds += self._disband(now)
        if self._touched:
            touched, self._touched = self._touched, []
            for link in touched:
                if link.group is None:
                    seeds += link.flows.values()
        if seeds:
            self._share(seeds, now)
        if self._groups:
            self._solve_groups(now)
        self.changed = bool(self._started or self._touched or self._groups)
        if len(self.ends) > self._tidy_at:
            self.ends[:] = [entry for entry in self.ends if entry[2] == entry[3].generation]
            heapify(self.ends)
            self._tidy_at = TIDY + 2 * len(self.ends)

    def _expect(self, connection: Connection, now: float) -> None:
        connection.since = now
        self._expected += 1
        connection.generation = self._expected  # unlike that of an earlier connection of the same two, whose entry may still be there
        heappush(self.ends, (now + connection.remaining / connection.rate, connection.key, connection.generation, connection))

    def _attach(self, now: float) -> list[Connection]:
        """Put new flows on their links; returns those that are not alone there."""
        started, self._started = self._started, []
        if len(started) > 1:
            started.sort(key=key_of)
        for connection in started:
            connection.since = now
            connection.attached = True
            for link in connection.links:
                link.flows[connection.key] = connection
        shared = []
        for connection in started:
            for link in connection.links:
                if len(link.flows) > 1:
                    shared.append(connection)
                    break
            else:
                connection.rate = connection.alone
                self._expect(connection, now)
        return shared

    def _share(self, seeds: list[Connection], now: float) -> None:
        self._stamp += 1
        for seed in seeds:
            if seed.mark == self._stamp or seed.group is not None:
                continue
            flows, groups = self._gather(seed)
            if groups or len(flows) > self._few:
                self._merge(flows, groups, now)
                continue
            fill_few(flows)
            for flow in flows:
                if flow.share != flow.rate:
                    flow.remaining -= flow.rate * (now - flow.since)
                    flow.rate = flow.share
                    self._expect(flow, now)

    def _gather(self, seed: Connection) -> tuple[list[Connection], list[GroupOfFlows]]:
        """All flows that share links with `seed`, directly or through others, and the groups among them instead of their members."""
        stamp = self._stamp
        seed.mark = stamp
        flows = [seed]
        groups: list[GroupOfFlows] = []
        for flow in flows:  # grows as we go
            for link in flow.links:
                if link.group is not None:
                    if link.group not in groups:
                        groups.append(link.group)
                elif link.mark != stamp:
                    link.mark = stamp
                    for other in link.flows.values():
                        if other.mark != stamp:
                            other.mark = stamp
                            flows.append(other)
        return flows, groups

    def _merge(self, flows: list[Connection], groups: list[GroupOfFlows], now: float) -> None:
        if groups:
            group = max(groups, key=lambda group: len(group.flows))
        else:
            self._groups_made += 1
            group = FlowGroup(-self._groups_made, now, self._routes.places)
        for other in groups:
            if other is not group:
                flows = flows + other.disband(now)
        for flow in flows:
            flow.remaining -= flow.rate * (now - flow.since)
            flow.generation += 1
            group.add(flow, now)
        self._disturb(group)

    def _disturb(self, group: GroupOfFlows) -> None:
        if group not in self._groups:
            self._groups.append(group)
            self.changed = True

    def _disband(self, now: float) -> list[Connection]:
        """The flows of changed groups that became small, or old: these may have split into independent parts."""
        freed: list[Connection] = []
        for group in self._groups:
            if len(group.flows) <= self._few // 2 or group.changes > len(group.flows) + self._few:
                freed += group.disband(now)
        return freed

    def _solve_groups(self, now: float) -> None:
        groups, self._groups = self._groups, []
        for group in groups:
            if group.flows:
                group.solve(now, self._routes.capacities())
                heappush(self.ends, (group.end, group.key, group.generation, group))


def key_of(connection: Connection) -> int:
    """The sort key of connections: their actors, whenever they first sent."""
    return connection.key
