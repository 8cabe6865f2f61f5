"""One connected socket: frames go out in the background, frames come in as they are complete.

A `ConnectionFactory` makes a link for each authenticated connection; a launcher and its children make one for each control link.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.processes.transport import slots, wire
from polyrhythm.core.processes.transport.byte_stream import BytePiece, ByteStream
from polyrhythm.core.processes.transport.decoder import Decoder
from polyrhythm.core.processes.transport.loop import READ, WRITE, EventLoop
from polyrhythm.core.processes.transport.path import PathEstimate, measure
from polyrhythm.core.processes.transport.wire import CONTROL, Frame, Limits, StripeSink, Tally
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, TamperedError, WireError

MOST_LANES = 256
"""The most lanes from one actor to another; more are refused."""
_DIRECT = 32 * 1024
"""Where at least so many bytes of one tensor are due, the socket is read straight into it."""
_SCRATCH = 256 * 1024
_READS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
@checked
class Wiring:
    """The settings of the connections between the processes of a run.

    `limits` bound every frame; `shared` is the most shared memory in bytes that one process keeps for one peer;
    `patience` is how many seconds a connection to another host may lie dead before its peer counts as lost; `lanes` the most
    connections that share the large messages from one actor to another on another host (below 2: the first carries everything), and
    `fewest_lanes` how many of them there are even where the path is too short to need any.
    """

    limits: Limits = field(default_factory=Limits)
    shared: int = 1 << 30
    patience: float = 15.0
    lanes: int = 8
    fewest_lanes: int = 1

    def __post_init__(self) -> None:
        if self.lanes > MOST_LANES:
            raise CompositionError(f"Wiring(lanes={self.lanes}) are more connections than a peer accepts: give {MOST_LANES} or fewer.")


class FrameLink:
    """Frames over a stream whose peer is known, driven by a loop.

    `on_frame(link, frame)` is called for each frame, and `on_close(link, why)` once, when the stream has ended or been
    given up: `why` is None for an orderly end between two frames. Malformed bytes are counted in `tally` and end the
    link. Over a local socket, `share()` lets large payloads go through shared memory from then on.
    """

    def __init__(self, loop: EventLoop, stream: ByteStream, wiring: Wiring, tally: Tally) -> None:
        self.on_frame: Callable[[FrameLink, Frame], None] = _ignore_frame
        self.on_close: Callable[[FrameLink, Exception | None], None] = _ignore_close
        self.closed = False
        self.moved = 0
        self._control_bytes = 0
        self._loop = loop
        self._wiring = wiring
        self._tally = tally
        self._stream = stream
        self._socket = stream.socket
        self._local = stream.local
        self._incoming = slots.Incoming(self._release)
        self._outgoing: slots.Outgoing | None = None
        self._decoder = Decoder(wiring.limits, tally, self._incoming.read if self._local else None)
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._pending: deque[BytePiece] = deque()
        self._when_drained: list[Callable[[], None]] = []
        self._writing = False
        self._socket.setblocking(False)
        loop.watch(self._socket, READ, self._ready)

    def restrict(self, limits: Limits) -> None:
        """Believe the peer up to these limits only."""
        self._decoder.limits = limits

    def share(self) -> None:
        """Send large payloads through shared memory, if both ends are on this host."""
        if self._local:
            self._outgoing = slots.Outgoing(self._wiring.shared)

    def assemble(self, board: StripeSink) -> None:
        """Take stripes too, and let `board` put them together."""
        self._decoder.board = board

    def path(self) -> PathEstimate | None:
        """The system's measurements of this connection; None within a host."""
        return None if self.closed else measure(self._socket)

    def cushion(self, nbytes: int) -> None:
        """Let about `nbytes` lie unsent in the system."""
        if not (self.closed or self._local):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, nbytes)

    @property
    def carried(self) -> int:
        """Bytes sent and received, except the runtime's own frames: reporting that it waits is no progress."""
        return self.moved - self._control_bytes

    @property
    def busy(self) -> bool:
        """True if something waits to go to the system."""
        return bool(self._pending) or (self._stream.unsent and not self.closed)

    def send(self, message: Message) -> None:
        """Send `message` in the background. Its tensors must not be changed."""
        if self.closed:
            return
        payload = sum([tensor.nbytes for tensor in message.tensors])
        written = self._outgoing.write(message.tensors) if self._outgoing and slots.LEAST <= payload <= self._wiring.shared else None
        if written is None:
            self.push(wire.encode(message, 0, self._wiring.limits))
        else:
            slot, descriptor = written
            self._push([BytePiece(memoryview(wire.encode_shared(message, slot, self._wiring.limits)), descriptor)])

    def send_control(self, message: Message) -> None:
        """Send a frame of the runtime's own."""
        if not self.closed:
            self._control_bytes += wire_bytes(message)
        self.push(wire.encode(message, CONTROL))

    def announce(self, message: Message, number: int) -> None:
        """Send `message` but for its payload, which goes in stripes by that number."""
        self.push([wire.encode_striped(message, number, self._wiring.limits)])

    def push(self, buffers: Iterable[bytes | memoryview]) -> None:
        """Send what is encoded already."""
        if not self.closed:
            self._push([BytePiece(memoryview(buffer)) for buffer in buffers])

    def when_drained(self, call: Callable[[], None]) -> None:
        """Make `call` when all that was sent so far has gone to the system, or the link is closed."""
        if self.busy:
            self._when_drained.append(call)
        else:
            call()

    def close(self, why: Exception | None = None) -> None:
        """Give the socket back; what was not sent is dropped."""
        if self.closed:
            return
        self.closed = True
        self._loop.forget(self._socket)
        self._socket.close()
        self._incoming.close()
        self._outgoing = None  # its memory goes back to the system, though someone may still know of this link
        for piece in self._pending:
            if piece.descriptor >= 0:
                os.close(piece.descriptor)
        self._pending.clear()
        self.on_close(self, why)
        self._drained()

    def drain(self) -> None:
        """Take in all that has come so far, without waiting for the loop."""
        before = -1
        while not self.closed and before != self.moved:
            before = self.moved
            self._read()

    def _release(self, number: int) -> None:
        # called by the garbage collector, from any thread
        self._loop.call(lambda: self.send_control(Message("free", (number,))))

    def _push(self, pieces: list[BytePiece]) -> None:
        self._pending.extend(pieces)
        if not self._writing:
            self._write()

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._write()
        if events & READ and not self.closed:
            self._read()

    def _write(self) -> None:
        try:
            while self.busy:
                self.moved += self._stream.send(self._pending)
        except BlockingIOError:
            self._await_room(True)
        except OSError as problem:
            self.close(problem)
        else:
            self._await_room(False)
            self._drained()

    def _await_room(self, wanted: bool) -> None:
        if wanted != self._writing and not self.closed:
            self._writing = wanted
            self._loop.change(self._socket, READ | WRITE if wanted else READ, self._ready)

    def _drained(self) -> None:
        calls, self._when_drained = self._when_drained, []
        for call in calls:
            call()

    def _read(self) -> None:
        for _ in range(_READS_AT_ONCE):
            if self.closed:
                return
            frames = self._receive()
            # what a callback raises is no failure of this link, and must not be taken for one
            while not self.closed and (frame := self._next(frames)) is not None:
                self.on_frame(self, frame)
            if not self._stream.more:
                return
        if self._stream.held:  # no event will come for it
            self._loop.call(self._read)

    def _receive(self) -> Iterator[Frame]:
        """Receive once: the frames that this completes."""
        space = self._decoder.space()
        direct = len(space) >= _DIRECT
        into = space if direct else self._scratch
        count = 0
        try:
            count = self._stream.receive(into, self._incoming.bring)
            if count == 0:
                self._decoder.finish()
                self.close()
        except BlockingIOError:
            pass
        except TamperedError as problem:
            self._tally.rejected += 1
            self.close(problem)
        except (WireError, OSError) as problem:
            self.close(problem)
        self.moved += count
        return self._decoder.filled(count) if direct else self._decoder.feed(into[:count])

    def _next(self, frames: Iterator[Frame]) -> Frame | None:
        """The next frame that is not the link's own affair."""
        try:
            for frame in frames:
                if frame.flags & CONTROL:
                    self._control_bytes += wire_bytes(frame.message)
                if not (frame.flags & CONTROL and frame.message.topic == "free" and self._outgoing):
                    return frame
                self._outgoing.release(frame.message.numbers[0] if frame.message.numbers else -1)
        except WireError as problem:
            self.close(problem)
        return None


def _ignore_frame(link: FrameLink, frame: Frame) -> None:
    return None


def _ignore_close(link: FrameLink, why: Exception | None) -> None:
    return None
