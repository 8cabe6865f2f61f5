"""The store of a rendezvous: what it keeps for whom, and what strangers cannot do to it."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from leftovers import soon

from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.core.processes.store.store_server import StoreServer
from polyrhythm.errors import CompositionError, RunError, WorkerFailed

KEY = secrets.token_bytes(32)
SOON = 20.0


def client(server: StoreServer, rank: int, key: bytes = KEY, seconds: float = SOON) -> StoreClient:
    return StoreClient(f"worker/{rank}", lambda: StoreTarget(*server.address, key), seconds, "the store")


@contextmanager
def store(workers: int = 2, rounds: float = 1) -> Iterator[StoreServer]:
    with StoreServer("127.0.0.1", workers, KEY, rounds=rounds) as server:
        yield server


@contextmanager
def clients(server: StoreServer, *ranks: int) -> Iterator[list[StoreClient]]:
    with ExitStack() as stack:
        found = [client(server, rank) for rank in ranks]
        for each in found:
            stack.callback(each.close)
        yield found


def test_what_one_sets_the_other_gets_when_it_is_there() -> None:
    with store() as server, clients(server, 0, 1) as (first, second):
        threading.Timer(0.1, lambda: (first.set("b", b""), first.set("a", b"1"))).start()
        assert second.get(["a", "b"], SOON) == [b"1", b""]
        assert second.check(["a", "c", "b"], SOON) == [True, False, True]
        assert [first.add("n", 2, SOON), second.add("n", -5, SOON)] == [2, -3]
        assert first.get([f"{key}" for key in ("n", "a") * 300], SOON) == [b"-3", b"1"] * 300


def test_several_threads_may_wait_at_once() -> None:
    with store() as server, clients(server, 0, 1) as (first, second):
        found: list[bytes] = []
        threads = [threading.Thread(target=lambda key=key: found.extend(first.get([key], SOON))) for key in "abc"]
        for thread in threads:
            thread.start()
        for key in "cba":
            second.set(key, key.encode())
        for thread in threads:
            thread.join()
        assert sorted(found) == [b"a", b"b", b"c"]


def test_who_waits_for_a_key_that_is_never_set_is_not_kept_for_ever() -> None:
    with store() as server, clients(server, 0) as (only,):
        with pytest.raises(TimeoutError):
            only.get(["a"], 0.1)
        only.set("a", b"1")
        assert only.get(["a"], SOON) == [b"1"], "it can go on"


def test_a_member_that_dies_fails_the_round_for_those_who_still_wait() -> None:
    with store(3) as server, clients(server, 0, 1) as (first, second):
        second.set("left", b"behind")
        assert first.get(["left"], SOON) == [b"behind"]
        second._loop.call(second._link.close)
        with pytest.raises(WorkerFailed, match="worker/1 failed: its process ended, or lost its connection, while it joined the run"):
            first.get(["never"], SOON)
        assert first.get(["left"], SOON) == [b"behind"], "what was set can still be read"
        with pytest.raises(WorkerFailed, match="worker/1"):
            first.get(["never"], SOON)


def test_who_keeps_a_store_for_one_round_learns_of_a_member_that_died_before_it_had_come_itself() -> None:
    """Worker 0 opens its store before it goes there, and another may be faster: it would wait at its own door until its time is up."""
    with store(3) as server, clients(server, 1) as (second,):
        second._loop.call(second._link.close)
        assert soon(lambda: server._rounds[-1].over)
        with clients(server, 0) as (keeper,), pytest.raises(WorkerFailed, match="worker/1 failed: its process ended"):
            keeper.get(["never"], SOON)
        with pytest.raises(RunError, match="one of them has failed"):
            client(server, 2, seconds=0.2)


def test_a_member_that_fails_reports_why_to_all() -> None:
    with store() as server, clients(server, 0, 1) as (first, second):
        second.fail(CompositionError("A stone is no model."))
        with pytest.raises(CompositionError, match=r"A stone is no model\."):
            first.get(["never"], SOON)


def test_a_member_that_is_done_fails_nothing() -> None:
    with store() as server, clients(server, 0, 1) as (first, second):
        second.set("a", b"1")
        second.close()
        with pytest.raises(TimeoutError):
            first.get(["never"], 0.1)
        assert first.get(["a"], SOON) == [b"1"]


def test_the_end_of_the_store_is_an_error_that_names_it() -> None:
    server = StoreServer("127.0.0.1", 2, KEY)
    with clients(server, 0) as (only,):
        threading.Timer(0.1, server.close).start()
        with pytest.raises(RunError, match="The connection with the store was lost"):
            only.get(["never"], SOON)


def test_each_round_has_keys_of_its_own() -> None:
    with store(rounds=2) as server:
        for text in (b"1", b"2"):
            with clients(server, 0, 1) as (first, second):
                first.set("a", text)
                assert second.get(["a"], SOON) == [text]
        with pytest.raises(RunError, match=r"could not be reached .*: all workers of an earlier run have come there"):
            client(server, 0, seconds=0.2)


def test_who_comes_early_waits_for_its_round_and_one_name_comes_only_once() -> None:
    with store(rounds=2) as server, ExitStack() as stack:
        first = client(server, 0)
        early: list[StoreClient] = []
        thread = threading.Thread(target=lambda: early.append(client(server, 0)))
        thread.start()
        with pytest.raises(RunError, match=r"could not be reached within .* seconds: worker/0 is there already"):
            client(server, 0, seconds=0.2)
        assert not early
        second = client(server, 1)
        thread.join()
        for each in (first, second, *early):
            stack.callback(each.close)
        early[0].set("a", b"new")
        with pytest.raises(TimeoutError):
            second.get(["a"], 0.1)


@pytest.mark.parametrize("rank", [2, 1_000_000])
def test_a_worker_that_cannot_be_is_refused_at_once_and_with_a_reason(rank: int) -> None:
    with store() as server:
        began = time.monotonic()
        with pytest.raises(RunError, match=f"worker/{rank} is not one of the 2 workers that are expected there"):
            client(server, rank, seconds=60.0)
        assert time.monotonic() - began < SOON


@pytest.mark.parametrize("name", ["server/0", "store", "worker/01", "worker/-1", "worker/x", "mallory"])
def test_a_name_that_is_no_workers_gets_no_response(name: str) -> None:
    with store() as server, pytest.raises(RunError, match="could not be reached"):
        StoreClient(name, lambda: StoreTarget(*server.address, KEY), 0.3, "the store")


def test_without_the_secret_nothing_is_read_or_set() -> None:
    with store() as server, clients(server, 0, 1) as (first, second):
        first.set("secret", b"1")
        with pytest.raises(RunError, match=r"could not be reached .* start all processes with the same POLYRHYTHM_SECRET"):
            client(server, 0, key=b"guessed" * 4, seconds=3.0)
        assert second.get(["secret"], SOON) == [b"1"]


def test_idle_strangers_and_garbage_keep_no_worker_out() -> None:
    with store() as server, ExitStack() as stack:
        for number in range(800):
            stranger = stack.enter_context(socket.create_connection(server.address))
            if number >= 500:
                stranger.sendall(secrets.token_bytes(200))
        with clients(server, 0, 1) as (first, second):
            first.set("a", b"1")
            assert second.get(["a"], SOON) == [b"1"]
        assert server.tally.rejected >= 300


def test_a_member_that_sends_too_much_is_dropped_and_named() -> None:
    with store() as server, clients(server, 0, 1) as (first, second):
        second.set("large", bytes(2 << 20))
        with pytest.raises(WorkerFailed, match=r"worker/1 failed: .*bytes, which is more than a store takes"):
            first.get(["never"], SOON)


def listening(port: int) -> list[str]:
    """The addresses at which something listens at `port`, as the system has them: bytes in the order of the machine, in hexadecimal."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [line[1].partition(":")[0] for line in lines if line[3] == "0A" and int(line[1].rpartition(":")[2], 16) == port]


def test_the_store_listens_at_its_address_alone_and_no_longer_than_needed() -> None:
    with StoreServer("127.0.0.2", 1, KEY) as server:
        assert listening(server.address[1]) == ["0200007F"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.address[1]))
        with clients(server, 0) as (only,):
            server.stop_listening()
            assert listening(server.address[1]) == []
            only.set("a", b"1")
            assert only.get(["a"], SOON) == [b"1"]


def test_nothing_is_left_of_a_store_and_its_clients() -> None:
    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    before = held()
    with store() as server, clients(server, 0, 1) as (first, second):
        first.set("a", b"1")
        second.get(["a"], SOON)
        with pytest.raises(RunError):
            client(server, 0, seconds=0.05)
    assert soon(lambda: held() == before)


def test_a_store_waits_for_those_who_still_read_before_it_closes() -> None:
    server = StoreServer("127.0.0.1", 2, KEY)
    with clients(server, 0, 1) as (first, second):
        threading.Timer(0.2, lambda: (first.close(), second.close())).start()
        began = time.monotonic()
        server.close(SOON)
        assert 0.1 < time.monotonic() - began < SOON
