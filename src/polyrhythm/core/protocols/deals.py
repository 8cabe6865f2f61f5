"""The deals of a worker's passes through data, of which each ends when the workers change.

`Data` keeps them; feeds of shuffles ask for the batches that are to be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.deal import ENDLESS, Deal, DealRule, DealtBatch, EndedDeal, dealt
from polyrhythm.core.protocols.deal_rules import BatchSize, PerWorker
from polyrhythm.core.trees import StateTree


class DealtShare(NamedTuple):
    """A worker's batches of a deal: those of `rank` from the number `start` to below `stop` (None: to the end), after `change` changes."""

    deal: Deal
    rank: int
    start: int
    stop: int | None
    change: int

    def batches(self) -> list[DealtBatch]:
        """The positions of each batch, where the number of samples is known."""
        return list(islice(self.deal.batches(self.rank), self.start, self.stop))


@dataclass(slots=True)
class PassDeals:
    """The deals of pass `number`: those that have `ended`, and the present one, of `group`. It changes when the members do.

    In each ended deal this worker took part as the member in `own`; one that has joined, as the one whose state it was given. It `held` so
    many batches when the present deal began; less than none where it still has batches of the deals before. Pass `since` is the first
    that its first members began together. `length` is the number of samples, where it was found by reading; `read` is as in an `EndedDeal`;
    `weight` is that of the batch that was loaded last, in a mean over workers. `reading` is the shuffle's reader of data that come one
    after the other, which continues in the next deal.
    """

    number: int
    group: Group
    size: BatchSize
    since: int = 0
    ended: tuple[EndedDeal, ...] = ()
    own: tuple[str, ...] = ()
    held: int = 0
    length: int = ENDLESS
    read: tuple[int, ...] = ()
    weight: float = 1.0
    reading: Any = None

    @property
    def before(self) -> int:
        """The number of batches that this worker, or the one whose state it was given, used of the deals that have ended."""
        return sum(count for _, count in self._own())

    def used_since(self, change: int, name: str) -> int:
        """The number of batches that a member used of the deals that ended after so many changes."""
        return sum(each.used[each.members.index(name)] or 0 for each in self.ended[change:] if name in each.members)

    def _own(self) -> Iterator[tuple[int, int]]:
        """By ended deal: the rank of this worker, and the batches that it used."""
        for each, name in zip(self.ended, self.own, strict=True):
            rank = each.members.index(name) if name in each.members else 0
            yield rank, (each.used[rank] or 0) if name in each.members else 0

    def shares(self, length: int, rule: DealRule, first: int = 0) -> Iterator[DealtShare]:
        """The worker's batches of the pass from the number `first` on, deal by deal."""
        for change, (rank, used) in enumerate(self._own()):
            if first < used:
                yield DealtShare(dealt(length, rule, self.ended[change].members, self.ended[:change]), rank, first, used, change)
            first = max(0, first - used)
        now = dealt(length, rule, self.group.members, self.ended)
        yield DealtShare(now, self.group.rank, first, None, len(self.ended))

    def loading(self, share: DealtShare) -> int:
        """The seed of the worker's data-loading processes in a deal: another after each change."""
        return rng.derive(self.group.seed, "loading", share.rank, self.number, *([share.change] if share.change else []))


T = TypeVar("T")
Begin = Callable[[PassDeals, int, int], Iterator[T]]
"""Makes the items of a pass: from the number that is given last on, of which so many as is given before were taken and may be empty."""


def continued(begin: Begin[T], deals: PassDeals, taken: int, empty: T) -> Iterator[T]:
    """The items of a pass, the first `taken` once more, perhaps as `empty`; each request gets the next of the deal that holds then."""
    first = max(0, deals.before - 1) if taken else 0
    yield from (empty for _ in range(first))
    rest = begin(deals, taken - first, first)
    while True:
        changes = len(deals.ended)
        for item in rest:
            yield item
            if len(deals.ended) > changes:
                break
        else:
            if len(deals.ended) == changes:
                return
        rest = begin(deals, 0, deals.before + deals.held)


class Deals:
    """The deals of all passes of a worker in `group`; `size` is what a batch size counts. No worker has started pass `since`."""

    def __init__(self, group: Group | None = None, size: BatchSize | None = None) -> None:
        self.size = size or PerWorker()
        self.since = 0
        self.changes = 0
        self._known: dict[int, PassDeals] = {}
        self._group = group

    @property
    def group(self) -> Group:
        """The members, as this worker sees them."""
        assert self._group is not None, "Data begins with a group"
        return self._group

    def begin(self, group: Group, size: BatchSize) -> None:
        """Deal to `group` from now on; passes that were restored continue among their members, unless `regroup` follows."""
        self._group, self.size = group, size
        for each in self._known.values():
            each.size = size
            if group.members[group.rank] in each.group.members:
                each.group = _among(group, each.group.members)

    def of(self, number: int) -> PassDeals:
        """The deals of pass `number`."""
        if number not in self._known:
            self._known[number] = self.plain(number)
        return self._known[number]

    def plain(self, number: int) -> PassDeals:
        """The deals of a pass that is over, as those of the present members: for state that continues from pass to pass."""
        return PassDeals(number, self.group, self.size, self.since)

    def end(self, number: int) -> None:
        """Forget a pass that is over here."""
        self._known.pop(number, None)

    def used(self, begun: int, under_way: Iterable[tuple[int, int, int]]) -> StateTree:
        """What this worker has used: `begun` passes, of which are `under_way`, by number: batches handed out, and those of them held."""
        found = {number: (taken - held - self.of(number).before, held) for number, taken, held in under_way}
        passes = [
            [number, each.since, list(each.group.members), _listed(each.ended), *found.get(number, (0, 0)), each.length, list(each.read)]
            for number, each in sorted(self._known.items())
        ]
        return {"begun": begun, "since": self.since, "members": list(self.group.members), "passes": passes}

    def regroup(self, group: Group, before: Mapping[str, StateTree], donor: str, taken: Mapping[int, int] | None = None) -> None:
        """Deal to `group` what `before`, by former member, says is neither used nor held; `donor`: whose state those got who join.

        Of each pass that this worker has begun it was handed out so many batches as `taken`.
        """
        name = group.members[group.rank]
        known, self._known = self._known, {}
        for number, (since, members, ended, length, read) in sorted(_passes(before).items()):
            uses = {each: _use(before.get(each, {}), number, len(ended)) for each in members}
            staying = tuple(each for each in group.members if _use(before.get(each, before[donor]), number, len(ended)) is not None)
            if name not in staying:
                continue
            now = known.get(number) or PassDeals(number, group, self.size, since, ended)
            found = [uses[each] or (None, 0) for each in members]
            now.group, now.length = _among(group, staying), length
            now.ended = (*ended, EndedDeal(members, tuple(used for used, _ in found), tuple(held for _, held in found), read))
            now.read = ()
            now.own = (*now.own, *(name if name in each.members else donor for each in now.ended[len(now.own) :]))
            now.held = (uses[name] or (0, 0))[1] if name in uses else 0
            if taken is not None and name in uses:
                now.held = taken.get(number, 0) - now.before  # none of a pass that others have begun
            self._known[number] = now
        self._group, self.since = group, max(tree["begun"] for tree in before.values())
        self.changes += 1

    def export(self) -> StateTree:
        """The passes that have changed members; empty if the workers have not changed."""
        if not self.changes:
            return {}
        rows = [
            [each.number, list(each.group.members), each.since, _listed(each.ended), list(each.own), each.held]
            for each in self._known.values()
        ]
        return {"since": self.since, "changes": self.changes, "passes": rows}

    def restore(self, state: StateTree) -> None:
        """Continue from what was exported."""
        if not state:
            return
        self.since, self.changes = state["since"], state["changes"]
        for number, members, since, ended, own, held in state["passes"]:
            group = Group("", tuple(members), 0)
            self._known[number] = PassDeals(number, group, self.size, since, _ended(ended), tuple(own), held)


def used_at(tree: StateTree, completed: bool = False) -> StateTree:
    """What a worker in lockstep with that of `tree` has used; it holds nothing. `completed`: the step that they were at is completed.

    What a sampler or shard has given ahead of the steps is never counted.
    """
    ahead = tree.get("ahead", 0)
    passes = [
        [*each[:4], each[4] + (0 if ahead is None or not completed else max(0, each[5] - ahead)), 0, *each[6:]] for each in tree["passes"]
    ]
    return {**tree, "passes": passes, "draws": [used_at(each, completed) for each in tree.get("draws", ())]}


def earlier(tree: StateTree, batches: int) -> StateTree:
    """What a worker has used that is so many `batches` behind that of `tree`, or ahead of it; it holds nothing."""
    passes = [[*each[:4], max(0, each[4] - batches), 0, *each[6:]] for each in tree["passes"]]
    return {**tree, "passes": passes, "draws": [earlier(each, batches) for each in tree.get("draws", ())]}


_Passage = tuple[int, tuple[str, ...], tuple[EndedDeal, ...], int, tuple[int, ...]]
"""The first pass that the members of a pass's first deal began together, its present members, the ended deals, the length, what is read."""


def _passes(before: Mapping[str, StateTree]) -> dict[int, _Passage]:
    """The passes under way at some worker, or begun by some and not by others."""
    found: dict[int, _Passage] = {}
    begun = [tree["begun"] for tree in before.values()]
    for tree in before.values():
        for number, since, members, ended, _, _, length, read in tree["passes"]:
            before_it = found.get(number, (since, tuple(members), _ended(ended), ENDLESS, ()))
            newer = len(ended) > len(before_it[2])  # others were interrupted before they had begun this deal
            of = (since, tuple(members), _ended(ended)) if newer else before_it[:3]
            found[number] = (*of, min(length, before_it[3]), max(tuple(read), before_it[4]))
    some = next(iter(before.values()))
    for number in range(min(begun), max(begun)):
        found.setdefault(number, (some["since"], tuple(some["members"]), (), ENDLESS, ()))
    return found


def _use(tree: StateTree, number: int, ended: int) -> tuple[int, int] | None:
    """The batches that a worker has used of a pass since so many deals have `ended`, and those it holds; None where its pass is over.

    One that has not begun the present deal yet has used nothing of it; one that is not known has come with it.
    """
    listed = next((each for each in tree.get("passes", ()) if each[0] == number), None)
    if listed is not None:
        return listed[4] if len(listed[3]) == ended else 0, listed[5]
    return None if number < tree.get("begun", 0) else (0, 0)


def _among(group: Group, members: tuple[str, ...]) -> Group:
    """The group of these members, as the same actor sees it."""
    return group if members == group.members else replace(group, members=members, rank=members.index(group.members[group.rank]))


def _listed(ended: tuple[EndedDeal, ...]) -> StateTree:
    return [[list(each.members), list(each.used), list(each.held), list(each.read)] for each in ended]


def _ended(rows: StateTree) -> tuple[EndedDeal, ...]:
    return tuple(EndedDeal(*map(tuple, row)) for row in rows)
