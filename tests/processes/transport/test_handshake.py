"""Both sides of a handshake without a socket: what each sends is given to the other, or to somebody else."""

from contextlib import suppress

import pytest

from polyrhythm.core.processes.transport.handshake import LONGEST_CALL, NONCE, PREFIX, Credentials, Handshake, Session, answer, call
from polyrhythm.core.processes.transport.wire import VERSION
from polyrhythm.errors import WireError

SECRET = b"s" * 32
CALLER = Credentials("worker/0", SECRET)
LISTENER = Credentials("worker/1", SECRET)


class Side:
    """One side; `sent` is all that it has sent, and `session` what it came to."""

    def __init__(self, steps: Handshake) -> None:
        self.sent = b""
        self.session: Session | None = None
        self._steps = steps
        self._come = b""
        self._turn(next(steps))

    def hear(self, data: bytes) -> bytes:
        """Take `data`; its reply."""
        before = len(self.sent)
        self._come += data
        while self.session is None and len(self._come) >= self.wanted:
            taken, self._come = self._come[: self.wanted], self._come[self.wanted :]
            try:
                self._turn(self._steps.send(taken))
            except StopIteration as stop:
                self.session = stop.value
        return self.sent[before:]

    def _turn(self, turn: object) -> None:
        self.sent += turn.reply  # type: ignore[attr-defined]
        self.wanted: int = turn.wanted  # type: ignore[attr-defined]


def listener(identity: Credentials = LISTENER, names: tuple[str, ...] = ("worker/0",)) -> Side:
    return Side(answer(identity, names.__contains__))


def caller(identity: Credentials = CALLER, called: str = "worker/1", lane: int = 0) -> Side:
    return Side(call(identity, called, lane))


def test_both_come_to_the_same_keys_one_for_each_direction_and_others_every_time() -> None:
    keys = set()
    for lane in (0, 7, 7):
        one, other = caller(lane=lane), listener()
        one.hear(other.hear(one.hear(other.sent)))
        assert one.session is not None and other.session is not None  # noqa: PT018
        assert (one.session.peer, other.session.peer, other.session.lane) == ("worker/1", "worker/0", lane)
        assert one.session.sending == other.session.receiving
        assert one.session.receiving == other.session.sending
        keys |= {one.session.sending, one.session.receiving}
    assert len(keys) == 6


def test_a_stranger_is_given_nothing_but_what_was_drawn_by_lot() -> None:
    other = listener()
    assert len(other.sent) == PREFIX.size + NONCE.size
    with pytest.raises(WireError, match="does not have the secret of this run"):
        other.hear(caller(Credentials("worker/0", b"another")).hear(other.sent))
    assert len(other.sent) == PREFIX.size + NONCE.size


@pytest.mark.parametrize(
    ("identity", "called", "message"),
    [
        (Credentials("worker/7", SECRET), "worker/1", "'worker/7' wanted to connect with worker/1, and nobody of that name is expected"),
        (LISTENER, "worker/1", "nobody of that name"),
        (CALLER, "worker/2", "'worker/0' wanted to connect with 'worker/2', but this is worker/1"),
    ],
    ids=["a name that does not exist", "the listener's own", "a call to somebody else"],
)
def test_the_secret_alone_admits_no_peer(identity: Credentials, called: str, message: str) -> None:
    other = listener()
    with pytest.raises(WireError, match=message):
        other.hear(caller(identity, called).hear(other.sent))
    assert len(other.sent) == PREFIX.size + NONCE.size


def test_a_call_that_is_sent_again_proves_nothing() -> None:
    one, first = caller(), listener()
    recorded = one.hear(first.sent)
    first.hear(recorded)
    assert first.session is not None
    with pytest.raises(WireError, match="does not have the secret"):
        listener().hear(recorded)


def test_neither_side_accepts_what_it_sent_itself() -> None:
    one, other = caller(), listener()
    sent = one.hear(other.sent)
    with pytest.raises(WireError, match="does not have the secret"):
        one.hear(sent)
    # two listeners that are put together: the greeting of one is no call
    with pytest.raises(WireError):
        other.hear(listener().sent + bytes(LONGEST_CALL))


@pytest.mark.parametrize("changes", ["greeting", "call", "answer"])
def test_a_change_of_any_bit_ends_the_handshake_before_both_have_keys(changes: str) -> None:
    def carried(what: str, message: bytes, place: int) -> bytes:
        if what != changes:
            return message
        changed = bytearray(message)
        changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    sizes = {"greeting": PREFIX.size + NONCE.size, "call": LONGEST_CALL - 2 * 255 + len("worker/0worker/1"), "answer": 64}
    for place in range(8 * sizes[changes]):
        one, other = caller(), listener()
        with suppress(WireError):
            sent = one.hear(carried("greeting", other.sent, place))
            reply = other.hear(carried("call", sent, place))
            one.hear(carried("answer", reply, place))
        assert one.session is None
        assert (other.session is None) == (changes != "answer")


def test_another_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(WireError, match=f"has wire version 9, and this is {VERSION}: install the same Polyrhythm everywhere"):
        caller().hear(PREFIX.pack(b"PR", 9, 0) + bytes(NONCE.size))


def test_a_key_without_a_common_secret_is_refused() -> None:
    other = listener()
    one = call(CALLER, "worker/1")
    next(one)
    one.send(other.sent[: PREFIX.size])
    sent = bytearray(one.send(other.sent[PREFIX.size :]).reply)
    at = PREFIX.size + 36  # behind lane, lengths and nonce
    sent[at : at + 32] = bytes(32)
    sent[-32:] = CALLER.sign(b"caller", other.sent + bytes(sent[:-32]))
    with pytest.raises(WireError, match="no common secret"):
        other.hear(bytes(sent))


def test_a_name_that_is_too_long_is_refused_by_who_has_it() -> None:
    with pytest.raises(WireError, match="a name of 300 bytes; the longest that fits into a handshake has 255"):
        caller(Credentials("w" * 300, SECRET))
    assert len(caller(Credentials("w" * 255, SECRET), "x" * 255).hear(listener().sent)) == LONGEST_CALL
