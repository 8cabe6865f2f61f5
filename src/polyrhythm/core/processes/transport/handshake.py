"""The handshake by which two processes prove to each other that they belong to one run, and get keys that nobody else has.

    listener greeting   magic "PR" | version u8 | zero u8 | nonce of 32 bytes
    caller   call       magic "PR" | version u8 | zero u8 | lane u16 | length of its name u8 | length of the name it calls u8
                        | nonce of 32 bytes | X25519 key of 32 bytes | its name | the name it calls
                        | HMAC-SHA256(secret, "caller" and all of the above)
    listener answer     X25519 key of 32 bytes | HMAC-SHA256(secret, "listener" and all of the above)

All is little-endian, and no other byte is read before the proof. A greeting is drawn by lot; a listener sends nothing that is derived
from the secret to one who has not proved that he knows it. A caller does: who stands at a listener's address can guess offline at a
secret that a person has chosen, one scrypt a guess, and at no random one. The two roles sign different texts, so that neither proof can
be sent back as the other, and both nonces, so that none can be sent again.

The keys of a connection are HKDF-SHA256 (RFC 5869) of the X25519 secret (RFC 7748), salted with the secret of the run, for all that
was said: one for each direction. Who learns the secret of a run later can not read what was recorded of it.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from polyrhythm.core.processes.transport.wire import MAGIC, VERSION
from polyrhythm.errors import WireError

KEY_BYTES = 32
PREFIX = struct.Struct("<2sBB")
"""The first bytes of both sides, which are checked before another byte is read."""
NONCE = struct.Struct("<32s")
CALL = struct.Struct("<HBB32s32s")
ANSWER = struct.Struct("<32s32s")
LONGEST_CALL = PREFIX.size + CALL.size + 2 * 255 + 32
"""Bytes that an unproven caller can make a listener hold, at most."""
_PREFIX = PREFIX.pack(MAGIC, VERSION, 0)
_PROOF = 32
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Credentials:
    """An actor's name and the secret of its run."""

    name: str
    secret: bytes = field(repr=False)

    def sign(self, role: bytes, transcript: bytes) -> bytes:
        """The proof that one who knows the secret saw `transcript` in `role`."""
        return hmac.digest(self.secret, b"polyrhythm " + role + b"\0" + transcript, "sha256")


@dataclass(frozen=True, slots=True)
class Session:
    """The result of a handshake: the peer's name, the lane that was called, and the keys for sending and for receiving."""

    peer: str
    lane: int
    sending: bytes = field(repr=False)
    receiving: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """The bytes to send, and the number of bytes to wait for then."""

    reply: bytes
    wanted: int


Handshake = Generator[Turn, bytes, Session]
"""Yields turns, is sent the bytes that came, and returns the session. Raises WireError when the other has not proved itself."""


def call(identity: Credentials, called: str, lane: int = 0) -> Handshake:
    """The side that opened the connection."""
    name, other = _name(identity.name), _name(called)
    greeting = yield Turn(b"", PREFIX.size)
    _check(greeting)
    greeting += yield Turn(b"", NONCE.size)
    private = X25519PrivateKey.generate()
    head = CALL.pack(lane, len(name), len(other), secrets.token_bytes(32), private.public_key().public_bytes_raw())
    sent = _PREFIX + head + name + other
    transcript = greeting + sent
    proof = identity.sign(b"caller", transcript)
    answer = yield Turn(sent + proof, ANSWER.size)
    key, signed = ANSWER.unpack(answer)
    transcript += proof + key
    if not hmac.compare_digest(signed, identity.sign(b"listener", transcript)):
        raise WireError(f"The process at the address of {called} does not have the secret of this run.")
    mine, theirs = _keys(identity.secret, private, key, transcript)
    return Session(called, lane, mine, theirs)


def answer(identity: Credentials, expects: Callable[[str], bool]) -> Handshake:
    """The side that was called, by someone whose name `expects` holds for."""
    greeting = _PREFIX + NONCE.pack(secrets.token_bytes(NONCE.size))
    prefix = yield Turn(greeting, PREFIX.size)
    _check(prefix)
    head = yield Turn(b"", CALL.size)
    lane, length, other_length, _, key = CALL.unpack(head)
    rest = yield Turn(b"", length + other_length + _PROOF)
    transcript, proof = greeting + prefix + head + rest[:-_PROOF], rest[-_PROOF:]
    if not hmac.compare_digest(proof, identity.sign(b"caller", transcript)):
        raise WireError("A caller does not have the secret of this run.")
    caller, called = rest[:length].decode(errors="replace"), rest[length:-_PROOF].decode(errors="replace")
    if called != identity.name:
        raise WireError(f"{caller[:40]!r} wanted to connect with {called[:40]!r}, but this is {identity.name}.")
    if not expects(caller):
        raise WireError(f"{caller[:40]!r} wanted to connect with {identity.name}, and nobody of that name is expected in this run.")
    private = X25519PrivateKey.generate()
    mine = private.public_key().public_bytes_raw()
    transcript += proof + mine
    theirs, ours = _keys(identity.secret, private, key, transcript)
    yield Turn(mine + identity.sign(b"listener", transcript), 0)
    return Session(caller, lane, ours, theirs)


def _check(prefix: bytes) -> None:
    magic, version, zero = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise WireError("A peer that was not authenticated sent something else than a handshake.")
    if version != VERSION:
        raise WireError(f"The peer has wire version {version}, and this is {VERSION}: install the same Polyrhythm everywhere.")
    if zero:
        raise WireError("A peer that was not authenticated sent a handshake of a kind that is not known.")


def _name(name: str) -> bytes:
    encoded = name.encode()
    if len(encoded) > _LONGEST_NAME:
        raise WireError(f"{name[:40]!r}... is a name of {len(encoded)} bytes; the longest that fits into a handshake has {_LONGEST_NAME}.")
    return encoded


def _keys(secret: bytes, private: X25519PrivateKey, key: bytes, transcript: bytes) -> tuple[bytes, bytes]:
    """The key of what the caller sends, and of what the listener sends."""
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        raise WireError("A peer sent a key of X25519 with which there is no common secret.") from None
    extracted = hmac.digest(secret, shared, "sha256")
    about = b"polyrhythm keys\0" + sha256(transcript).digest()
    first = hmac.digest(extracted, about + b"\x01", "sha256")
    return first, hmac.digest(extracted, first + about + b"\x02", "sha256")
