"""Who computes which portion of a batch: a pure record of what was dealt, what came back, and what must be dealt again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from polyrhythm.core.whole_batch.vectors import Contribution

_NOTHING = -1


class PortionDeal(NamedTuple):
    """The dealer's answer to a worker, in this order: `dropped` has it forget its sum, `accepted` add the portion that it came with.

    Then `push` has it send its sum to the servers, and then it computes `portion`, or asks again where that is -1.
    """

    accepted: bool = False
    dropped: bool = False
    push: bool = False
    portion: int = _NOTHING


@dataclass(slots=True)
class _Hand:
    """What the dealer knows of a worker: the portions in its `carried` sum of that `number`, and what it computes `since` when.

    `seconds` is how long a portion takes it, the last measured; `owed` says that it must drop its sum.
    """

    number: int = 0
    carried: list[int] = field(default_factory=list)
    portion: int = _NOTHING
    since: float | None = None
    seconds: float | None = None
    owed: bool = False


class PortionDealer:
    """Deals `portions` of a batch, in each evaluation anew, to workers who ask (Sandblaster; Dean et al., NIPS 2012, section 4.2).

    A worker adds up the gradients of portions that were accepted from it, and sends the sum to the servers when it may be needed before it
    would be back. When nothing is left, those who ask get what others still compute, at most `copies` workers one portion; of a portion
    that comes twice the first counts. A portion is *stored* when each of the `servers` has the sum that it is in; an evaluation is over
    when all are. What a lost worker has not stored is dealt again.
    """

    def __init__(self, portions: int, copies: int, servers: int, workers: Sequence[str]) -> None:
        self.portions = portions
        self.copies = copies
        self.servers = servers
        self.hands = {name: _Hand() for name in workers}
        self.parked: list[str] = []
        self.begin()

    def begin(self) -> None:
        """A new evaluation begins: all is to be dealt."""
        self.left = deque(range(self.portions))
        self.losses: dict[int, float] = {}
        self.sent: dict[Contribution, list[int]] = {}
        self.confirmed: Counter[Contribution] = Counter()
        self.stored: dict[Contribution, list[int]] = {}
        self.dealt = 0
        self.parked.clear()
        for hand in self.hands.values():
            hand.number, hand.carried, hand.portion, hand.owed = 0, [], _NOTHING, False

    @property
    def over(self) -> bool:
        """True if all portions are stored."""
        return sum(map(len, self.stored.values())) == self.portions

    @property
    def loss(self) -> float:
        """The sum of the portions' losses, in their order."""
        return sum(self.losses[portion] for portion in sorted(self.losses))

    @property
    def contributions(self) -> list[Contribution]:
        """The sums to be added up, in the order of their portions."""
        return sorted(self.stored, key=lambda each: self.stored[each])

    def ask(self, worker: str, done: int, loss: float, now: float) -> PortionDeal | None:
        """The next deal of a worker who comes with the portion `done` (-1: with none); None: it is parked until there is one."""
        hand = self.hands[worker]
        self.late(worker, now)
        hand.portion = _NOTHING
        dropped, hand.owed = hand.owed, False
        if dropped:
            hand.number += 1
        accepted = done != _NOTHING and done not in self.losses
        if accepted:
            self.losses[done] = loss
            hand.carried.append(done)
            if done in self.left:
                self.left.remove(done)
        found = self._next(worker, now)
        if found is None and not (accepted or dropped):
            self.parked.append(worker)
            return None
        return (found or PortionDeal())._replace(accepted=accepted, dropped=dropped)

    def late(self, worker: str, now: float) -> None:
        """A worker comes with a portion of an evaluation that is over."""
        hand = self.hands[worker]
        if hand.since is not None:
            hand.seconds, hand.since = now - hand.since, None

    def confirm(self, contribution: Contribution) -> None:
        """One more server has this sum."""
        self.confirmed[contribution] += 1
        if self.confirmed[contribution] == self.servers and contribution in self.sent:
            self.stored[contribution] = self.sent.pop(contribution)

    def lose(self, worker: str) -> None:
        """A worker is lost: what it had and has not stored is to be dealt."""
        hand = self.hands.pop(worker)
        gone = [*hand.carried, *(each for key in [*self.sent] if key[0] == worker for each in self.sent.pop(key))]
        self._again(gone)
        if hand.portion != _NOTHING and hand.portion not in self.losses and not self._holders(hand.portion):
            self._again([hand.portion])
        self.parked = [name for name in self.parked if name != worker]

    def wake(self, now: float) -> list[tuple[str, PortionDeal]]:
        """The deals of parked workers, where there are any now."""
        found = []
        for worker in [*self.parked]:
            if (deal := self._next(worker, now)) is not None:
                self.parked.remove(worker)
                found.append((worker, deal))
        return found

    def _next(self, worker: str, now: float) -> PortionDeal | None:
        hand = self.hands[worker]
        if self.left:
            return self._deal(worker, self.left.popleft(), now)
        if hand.carried:
            return PortionDeal(push=self._push(worker))
        if self.copies > 1:
            if (portion := self._backup(worker)) is not None:
                return self._deal(worker, portion, now)
            self._revoke(worker, now)
            if self.left:
                return self._deal(worker, self.left.popleft(), now)
        return None

    def _deal(self, worker: str, portion: int, now: float) -> PortionDeal:
        hand = self.hands[worker]
        push = bool(hand.carried) and hand.seconds is not None and hand.seconds > self._remaining()
        hand.portion, hand.since = portion, now
        self.dealt += 1
        return PortionDeal(push=push and self._push(worker), portion=portion)

    def _push(self, worker: str) -> bool:
        hand = self.hands[worker]
        self.sent[worker, hand.number] = hand.carried
        hand.carried, hand.number = [], hand.number + 1
        return True

    def _remaining(self) -> float:
        """The seconds after which nothing will be left to deal, at the pace of all."""
        pace = sum(1 / hand.seconds for hand in self.hands.values() if hand.seconds)
        return len(self.left) / pace if pace else 0.0

    def _holders(self, portion: int) -> int:
        return sum(hand.portion == portion for hand in self.hands.values())

    def _backup(self, worker: str) -> int | None:
        """What others compute and fewest do, of that what they have had longest."""
        held = {hand.portion: hand.since or 0.0 for name, hand in self.hands.items() if hand.portion != _NOTHING and name != worker}
        open_ = [each for each in held if each not in self.losses and self._holders(each) < self.copies]
        return min(open_, key=lambda each: (self._holders(each), held[each], each), default=None)

    def _revoke(self, worker: str, now: float) -> None:
        """PortionDeal the portions in the sum of a worker who is busy and will be for longer than to compute them again would take."""
        own = self.hands[worker].seconds
        for hand in self.hands.values():
            if hand.portion == _NOTHING or not hand.carried or own is None:
                continue
            seconds = own if hand.seconds is None else hand.seconds
            back = (hand.since or 0.0) + seconds - now
            if (seconds if back < 0 else back) > own * len(hand.carried):
                self._again(hand.carried)
                hand.carried, hand.owed = [], True

    def _again(self, portions: Sequence[int]) -> None:
        for portion in portions:
            self.losses.pop(portion, None)
        self.left.extendleft(sorted(portions, reverse=True))
