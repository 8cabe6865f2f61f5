"""How two processes prove to each other that they belong to the same run, without sending the secret.

    caller   hello      its name, the name it calls, the number of the lane (0: the connection itself), a nonce
    listener challenge  a nonce of its own, and HMAC-SHA256(secret, "listener", both names, the lane, both nonces)
    caller   proof      HMAC-SHA256(secret, "caller", both names, the lane, both nonces)

The two roles sign different texts, so that neither proof can be sent back as the other.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from polyrhythm.errors import WireError
from polyrhythm.kernel.message import Message
from polyrhythm.processes.transport.wire import CONTROL, Frame, Limits

UNPROVEN = Limits(text=1024, numbers=0, tensors=0, payload=0)
"""What is taken from a peer that is not authenticated."""


_LANE_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Credentials:
    """An actor's name and the secret of its run."""

    name: str
    secret: bytes

    def sign(self, role: str, *parts: str) -> str:
        """The proof, in hexadecimal, that one who knows the secret in `role` saw `parts`."""
        return hmac.digest(self.secret, "\n".join((role, *parts)).encode(), "sha256").hex()


class Caller:
    """The side that opened the connection."""

    def __init__(self, identity: Credentials, called: str, lane: int = 0) -> None:
        self._identity = identity
        self._called = called
        self._lane = str(lane)
        self._nonce = secrets.token_hex(32)

    def hello(self) -> Message:
        """The first message."""
        return _message("hello", self._identity.name, self._called, self._lane, self._nonce)

    def prove(self, frame: Frame) -> Message:
        """The proof in reply to the challenge. Raises WireError if the listener has not the secret."""
        theirs, signed = _fields(frame, "challenge", 2)
        transcript = (self._identity.name, self._called, self._lane, self._nonce, theirs)
        if not hmac.compare_digest(signed, self._identity.sign("listener", *transcript)):
            raise WireError(f"The process at the address of {self._called} does not have the secret of this run.")
        return _message("proof", self._identity.sign("caller", *transcript))


class Listener:
    """The side that was called; `lane` is the one that the caller opens."""

    def __init__(self, identity: Credentials) -> None:
        self.lane = 0
        self._identity = identity
        self._transcript: tuple[str, ...] = ()

    def advance(self, frame: Frame) -> tuple[str, Message | None]:
        """The caller's name once it is proved, else "" and what to reply. Raises WireError on anything else."""
        if not self._transcript:
            caller, called, lane, theirs = _fields(frame, "hello", 4)
            if called != self._identity.name:
                raise WireError(f"{caller[:40]!r} wanted to connect with {called[:40]!r}, but this is {self._identity.name}.")
            if not (lane.isdecimal() and len(lane) <= _LANE_DIGITS):
                raise WireError(f"{caller[:40]!r} requested lane {lane[:40]!r}, which does not exist.")
            self.lane, mine = int(lane), secrets.token_hex(32)
            self._transcript = (caller, called, lane, theirs, mine)
            return "", _message("challenge", mine, self._identity.sign("listener", *self._transcript))
        (signed,) = _fields(frame, "proof", 1)
        if not hmac.compare_digest(signed, self._identity.sign("caller", *self._transcript)):
            raise WireError(f"{self._transcript[0][:40]!r} does not have the secret of this run.")
        return self._transcript[0], None


def _message(topic: str, *fields: str) -> Message:
    return Message(topic, text="\n".join(fields))


def _fields(frame: Frame, topic: str, count: int) -> list[str]:
    fields = frame.message.text.split("\n")
    if not frame.flags & CONTROL or frame.message.topic != topic or len(fields) != count or not frame.message.text.isascii():
        raise WireError(f"A peer that was not authenticated sent something else than {topic}.")
    return fields
