"""The frames from one other actor, over the connection that it opened and its lanes, in the order in which they were sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from polyrhythm.core.processes.transport.frame_link import MOST_LANES, FrameLink
from polyrhythm.core.processes.transport.stripes import Assembly
from polyrhythm.core.processes.transport.wire import STRIPE, STRIPED, Frame, Limits, Tally
from polyrhythm.errors import WireError


class Inbound:
    """`take` is given each frame; `on_over` is called once, when a connection ended: then all of them are closed.

    A lane may be authenticated before the connection that it belongs to.
    """

    def __init__(
        self, limits: Limits, tally: Tally, take: Callable[[FrameLink, Frame], None], on_over: Callable[[Exception | None], None]
    ) -> None:
        self._limits = limits
        self._tally = tally
        self._take = take
        self._on_over = on_over
        self._links: dict[int, FrameLink] = {}
        self._assembly = Assembly()
        self._frames: deque[Frame] = deque()
        self._over = False

    @property
    def connected(self) -> bool:
        """True if the connection itself has been opened."""
        return 0 in self._links

    @property
    def moved(self) -> int:
        """Bytes sent and received over all of the connections, except the runtime's own frames."""
        return sum(link.carried for link in self._links.values())

    def join(self, number: int, link: FrameLink) -> None:
        """`link` has been authenticated as lane `number` (0: the connection itself). Raises WireError if there can be none such."""
        if self._over or number in self._links or number > MOST_LANES:
            raise WireError(f"A peer opened lane {number}, which is there already or cannot be.")
        self._links[number] = link
        link.assemble(self._assembly)
        link.restrict(self._limits)
        link.on_frame = self._receive_stripe if number else self._receive
        link.on_close = lambda _, why: self._end(why)

    def restrict(self, limits: Limits) -> None:
        """Believe the peer up to these limits only from now on."""
        self._limits = limits
        for link in self._links.values():
            link.restrict(limits)

    def close(self) -> None:
        """Give all sockets back."""
        self._over = True
        self._frames.clear()
        for link in self._links.values():
            link.close()

    def _receive(self, link: FrameLink, frame: Frame) -> None:
        if not frame.flags & STRIPE:
            self._frames.append(frame)
        self._advance(link)

    def _receive_stripe(self, link: FrameLink, frame: Frame) -> None:
        if frame.flags & STRIPE:
            self._advance(link)
        else:
            self._reject(link, WireError("A lane brought something else than a stripe."))

    def _advance(self, link: FrameLink) -> None:
        """Hand on what is whole, up to the first that is not: what was sent after it must wait."""
        while self._frames:
            try:
                if self._frames[0].flags & STRIPED and not self._assembly.release():
                    return
            except WireError as problem:
                self._reject(link, problem)
                return
            self._take(self._links[0], self._frames.popleft())

    def _reject(self, link: FrameLink, why: WireError) -> None:
        self._tally.rejected += 1
        link.close(why)

    def _end(self, why: Exception | None) -> None:
        if not self._over:
            self.close()
            self._on_over(why)
