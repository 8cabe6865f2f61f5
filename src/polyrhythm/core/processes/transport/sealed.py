"""Bytes between hosts, in records that nobody on the way can read, change, repeat, reorder or leave out.

    record   length u32 of what follows | AES-256-GCM of at most 262144 bytes (NIST SP 800-38D) | tag of 16 bytes

Each direction has a separate key, and its records are counted: the number is the nonce and is not sent. So a record opens only in its
place, and only in its direction.
"""

from __future__ import annotations

import socket
import struct
from collections import deque

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from polyrhythm.core.processes.transport.byte_stream import Bring, BytePiece
from polyrhythm.core.processes.transport.handshake import Session
from polyrhythm.errors import TamperedError, WireError

RECORD = 256 * 1024
"""Bytes in the largest record. AES-256-GCM does 14.5 GB/s with it on one core with AES instructions (64 KiB: 13, 16 KiB: 9.5), and each
record costs some ten microseconds besides; nothing can be used of one before all has come, but nothing can of a frame either."""
_LENGTH = struct.Struct("<I")
_TAG = 16
_OVERHEAD = _LENGTH.size + _TAG
_ROOM = 2 * (RECORD + _OVERHEAD)
_SMALL = 16 * 1024
"""Pieces below this are copied together into one record, of so many bytes at most; others are sealed from where they lie."""
_GATHERED = 64 * 1024
_NONCE = struct.Struct("<Q4x")


class Sealed:
    """A TCP connection whose ends have authenticated each other (`byte_stream.ByteStream`)."""

    local = False

    def __init__(self, connection: socket.socket, session: Session) -> None:
        self.socket = connection
        self.more = False
        self._peer = session.peer
        self._sealer, self._opener = AESGCM(session.sending), AESGCM(session.receiving)
        self._sent = self._received = 0
        self._outgoing, self._incoming = memoryview(bytearray(_ROOM)), memoryview(bytearray(_ROOM))
        self._unsent = self._outgoing[:0]
        self._gathered, self._opened = memoryview(bytearray(_GATHERED)), memoryview(bytearray(RECORD))
        self._rest = self._opened[:0]
        self._start = self._end = 0
        self._full = False

    @property
    def unsent(self) -> bool:
        """True if sealed records wait to go to the system."""
        return bool(self._unsent)

    @property
    def held(self) -> bool:
        """True if something lies here that can be taken without another read."""
        return bool(self._rest) or self._whole() > 0

    def send(self, pieces: deque[BytePiece]) -> int:
        """Seal some records, unless there are any, and send as much of them as the system takes."""
        taken = 0 if self._unsent else self._seal(pieces)
        try:
            if self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            if not taken:
                raise
        return taken

    def receive(self, into: memoryview, bring: Bring) -> int:
        """Open one record, reading once if there is none."""
        self.more = False
        if not self._rest:
            size = self._whole()
            if not size:
                if not self._read():
                    return 0
                size = self._whole()
            if not size:
                raise BlockingIOError
            if (count := self._open(size, into)) >= 0:
                return count
        count = min(len(self._rest), len(into))
        into[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._look()
        return count

    def _seal(self, pieces: deque[BytePiece]) -> int:
        at = taken = 0
        while pieces and at + RECORD + _OVERHEAD <= _ROOM:
            plain = self._next(pieces)
            if not plain:  # a record of nothing would be taken for the end
                continue
            size = len(plain) + _TAG
            _LENGTH.pack_into(self._outgoing, at, size)
            at += _LENGTH.size
            self._sealer.encrypt_into(_NONCE.pack(self._sent), plain, None, self._outgoing[at : at + size])
            self._sent += 1
            at += size
            taken += len(plain)
        self._unsent = self._outgoing[:at]
        return taken

    def _next(self, pieces: deque[BytePiece]) -> memoryview:
        """The bytes of the next record, taken from the front of `pieces`."""
        first = pieces[0]
        if len(first.data) >= _SMALL:
            plain, first.data = first.data[:RECORD], first.data[RECORD:]
            if not first.data:
                pieces.popleft()
            return plain
        count = 0
        while pieces and (size := len(pieces[0].data)) < _SMALL and count + size <= _GATHERED:
            self._gathered[count : count + size] = pieces.popleft().data
            count += size
        return self._gathered[:count]

    def _read(self) -> int:
        """Read what has come: the number of bytes, 0 at the end."""
        if self._start and _ROOM - self._end < RECORD + _OVERHEAD:
            left = self._end - self._start
            self._incoming[:left] = self._incoming[self._start : self._end]
            self._start, self._end = 0, left
        space = self._incoming[self._end :]
        count = self.socket.recv_into(space)
        self._full = count == len(space)
        self._end += count
        if not count and self._end > self._start:
            raise WireError("The stream ended in the middle of a record.")
        return count

    def _whole(self) -> int:
        """The length of the next record if all of it is here, else 0."""
        here = self._end - self._start
        if here < _LENGTH.size:
            return 0
        (size,) = _LENGTH.unpack_from(self._incoming, self._start)
        if not _TAG < size <= RECORD + _TAG:
            raise self._tampered()
        return size if here >= _LENGTH.size + size else 0

    def _open(self, size: int, into: memoryview) -> int:
        """Open the next record `into` that memory: how many bytes it held, or -1 if it was too long and now lies in `_rest`."""
        begin = self._start + _LENGTH.size
        fits = size - _TAG <= len(into)
        plain = (into if fits else self._opened)[: size - _TAG]
        try:
            self._opener.decrypt_into(_NONCE.pack(self._received), self._incoming[begin : begin + size], None, plain)
        except InvalidTag:
            raise self._tampered() from None
        self._received += 1
        self._start = begin + size
        if self._start == self._end:
            self._start = self._end = 0
        if not fits:
            self._rest = plain
            return -1
        self._look()
        return len(plain)

    def _look(self) -> None:
        self.more = self.held or self._full

    def _tampered(self) -> TamperedError:
        return TamperedError(
            f"A record from {self._peer} was changed on the way, or is not the one that {self._peer} sent next: somebody or something "
            "between the two hosts alters what is sent."
        )
