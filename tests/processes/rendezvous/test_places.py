"""Where processes meet: who listens where, and the error when they do not find each other."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from ports import reserved_port
from torch.distributed import HashStore  # type: ignore[attr-defined]

from polyrhythm.core.processes.rendezvous import launchers, places
from polyrhythm.core.processes.rendezvous.found import Found
from polyrhythm.core.processes.rendezvous.hosts import Names, is_own, towards
from polyrhythm.core.processes.rendezvous.places import Attendee, KeptStore, Meeting, MeetingPlace, RankZero
from polyrhythm.core.processes.store.store_server import StoreServer
from polyrhythm.errors import CompositionError, RunError

SOON = 20.0
SECRET = "a text that is hard to guess"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLYRHYTHM_SECRET", "POLYRHYTHM_BIND", "POLYRHYTHM_HOST_ADDR", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def met(place: MeetingPlace, workers: int = 2, bind: str = "") -> Iterator[list[Meeting]]:
    """The meetings of so many workers, each in a thread."""
    with ThreadPoolExecutor(workers) as pool:
        meetings = list(pool.map(lambda rank: place.meet(Attendee(rank, workers, SOON, bind)), range(workers)))
        try:
            meetings[0].client.set("a", b"1")
            assert all(each.client.get(["a"], SOON) == [b"1"] for each in meetings)
            yield meetings
        finally:
            list(pool.map(Meeting.close, meetings))


def port_of(meeting: Meeting) -> int:
    assert meeting.server is not None
    return meeting.server.address[1]


def listening(port: int) -> list[str]:
    """The addresses at which something listens at `port`, as the system has them."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [line[1].partition(":")[0] for line in lines if line[3] == "0A" and int(line[1].rpartition(":")[2], 16) == port]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_at_loopback_the_store_listens_there_alone_and_nothing_is_printed(host: str, capfd: pytest.CaptureFixture[str]) -> None:
    with reserved_port() as port, met(RankZero(host, port)) as meetings:
        assert listening(port) == ["0100007F"]
        assert {(each.bind, each.ip) for each in meetings} == {("127.0.0.1", "127.0.0.1")}
    assert capfd.readouterr().err == ""


def test_elsewhere_one_line_warns_what_strangers_could_do_unless_there_is_a_secret(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "is_loopback", lambda ip: False)
    with reserved_port() as port:
        with met(RankZero(port=port)):
            pass
        printed = capfd.readouterr().err
        assert printed.startswith(f"polyrhythm: the rendezvous at 127.0.0.1:{port} is not protected: whoever can connect to that port can")
        assert printed.count("\n") == 1
        assert "POLYRHYTHM_SECRET" in printed
        monkeypatch.setenv("POLYRHYTHM_SECRET", SECRET)
        with met(RankZero(port=port)):
            pass
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("by_variable", [True, False])
def test_the_user_may_choose_the_address_to_listen_at(by_variable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_variable:
        monkeypatch.setenv("POLYRHYTHM_BIND", "127.0.0.2")
    with reserved_port() as port, met(RankZero("127.0.0.2", port), bind="" if by_variable else "127.0.0.2") as meetings:
        assert listening(port) == ["0200007F"]
        assert {(each.bind, each.ip) for each in meetings} == {("127.0.0.2", "127.0.0.2")}


def test_who_listens_everywhere_is_reached_at_the_address_towards_the_store() -> None:
    with reserved_port() as port, met(RankZero(port=port), bind="0.0.0.0") as meetings:
        assert listening(port) == ["00000000"]
        assert {(each.bind, each.ip) for each in meetings} == {("0.0.0.0", "127.0.0.1")}


def test_behind_address_translation_others_receive_the_outer_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYRHYTHM_HOST_ADDR", "203.0.113.7")
    with reserved_port() as port, met(RankZero(port=port)) as meetings:
        assert {(each.bind, each.ip) for each in meetings} == {("127.0.0.1", "203.0.113.7")}


def test_an_address_of_another_host_cannot_be_listened_at() -> None:
    with pytest.raises(
        RunError, match=r"'203\.0\.113\.7' is no address of this host, .*: give bind, or set POLYRHYTHM_BIND to, one that is"
    ):
        RankZero().meet(Attendee(0, 2, SOON, "203.0.113.7"))


def test_what_is_no_address_cannot_be_listened_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYRHYTHM_BIND", "trainer")
    with pytest.raises(CompositionError, match="Nothing can listen at 'trainer': give bind, or set POLYRHYTHM_BIND to, an IP address"):
        RankZero().meet(Attendee(0, 2, SOON))


def test_a_port_in_use_is_an_error_that_states_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_PORT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RunError, match=rf"Port {port} of 127\.0\.0\.1 is used by something else.*: set MASTER_PORT to a free port"):
            RankZero(port=port).meet(Attendee(0, 2, SOON))


def test_a_port_that_is_given_back_soon_is_waited_for() -> None:
    other = socket.create_server(("127.0.0.1", 0))
    threading.Timer(0.3, other.close).start()
    with met(RankZero(port=other.getsockname()[1])):
        pass


@pytest.mark.parametrize("rank", [0, 1])
def test_a_name_that_does_not_resolve_is_an_error_that_names_it(rank: int) -> None:
    place = RankZero("no-such-host.invalid", names=Names(0.1))
    with pytest.raises(
        RunError, match=r"The host name 'no-such-host\.invalid' .* cannot be resolved here .*: set MASTER_ADDR to an address"
    ):
        place.meet(Attendee(rank, 2, SOON))


def test_slurm_is_queried_for_the_address_of_a_node_whose_name_does_not_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launchers.node_address("n0") == "", "there is no scontrol"
    shown = tmp_path / "scontrol"
    shown.write_text("#!/bin/sh\necho NodeName=$3 Arch=x86_64\necho '   NodeAddr=127.0.0.3 NodeHostName=vm'\n")
    shown.chmod(0o755)
    assert launchers.node_address("n0") == "127.0.0.3"
    names = Names(0.1, otherwise=launchers.node_address)
    assert names.addresses("no-such-node.invalid") == ["127.0.0.3"]


def test_no_listener_a_stranger_and_silence_are_distinguished() -> None:
    def error_of(place: RankZero) -> str:
        with pytest.raises(RunError) as raised:
            place.meet(Attendee(1, 2, 2.0))
        return str(raised.value)

    with reserved_port() as port:
        assert f"The store of the rendezvous at 127.0.0.1:{port} could not be reached within 2 seconds: nobody listens" in error_of(
            RankZero(port=port)
        )
        with StoreServer("127.0.0.1", 2, b"another", port):
            assert "start all processes with the same POLYRHYTHM_SECRET" in error_of(RankZero(port=port))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "no store has answered there" in error_of(RankZero(port=silent.getsockname()[1]))


def test_a_launcher_may_keep_the_store_and_its_secret() -> None:
    key = secrets.token_bytes(32)
    with StoreServer("127.0.0.1", 2, key) as server:
        place = KeptStore(*server.address, key)
        for _ in range(3):
            with met(place) as meetings:
                assert [each.server for each in meetings] == [None, None]
        assert key.hex() not in repr(place)
        assert repr(key) not in repr(place)
    with pytest.raises(RunError, match="nobody listens there"):
        place.meet(Attendee(0, 2, 0.2))


@pytest.fixture
def common() -> Callable[[], HashStore]:
    store = HashStore()
    return lambda: store


@pytest.mark.parametrize("secret", ["", SECRET])
def test_in_a_store_of_torch_only_the_address_is_found(
    secret: str, common: Callable[[], HashStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    if secret:
        monkeypatch.setenv("POLYRHYTHM_SECRET", secret)
    place = Found(common, host="127.0.0.1")
    ports = []
    for _ in range(3):  # also when all meet again, and the address of the last meeting still stands there
        with met(place) as meetings:
            ports.append(port_of(meetings[0]))
            assert listening(ports[-1]) == ["0100007F"]
            published = common().get("polyrhythm/rendezvous").decode()
            assert ("proof" in published, '"key":""' in published) == (True, bool(secret))
    assert len(set(ports)) == 3


def test_an_address_that_is_not_signed_with_the_secret_is_refused(common: Callable[[], HashStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYRHYTHM_SECRET", SECRET)
    common().set("polyrhythm/rendezvous", '{"ip":"127.0.0.1","port":1,"key":"","proof":"forged"}')
    with pytest.raises(RunError, match=r"The address of worker/0's store, 127\.0\.0\.1:1, is not signed with the POLYRHYTHM_SECRET"):
        Found(common).meet(Attendee(1, 2, SOON))


def test_who_finds_no_address_reports_it_after_its_time(common: Callable[[], HashStore]) -> None:
    began = time.monotonic()
    with pytest.raises(RunError, match="could not be reached within 0 seconds: worker/0 has not announced where it keeps it"):
        Found(common).meet(Attendee(1, 2, 0.3))
    assert time.monotonic() - began >= 0.3


def test_a_short_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYRHYTHM_SECRET", "hunter2")
    with pytest.raises(CompositionError, match="POLYRHYTHM_SECRET has 7 characters"):
        RankZero().meet(Attendee(0, 2, SOON))


def test_the_own_address_is_the_one_towards_the_other() -> None:
    assert towards("127.0.0.1") == "127.0.0.1"
    assert is_own("127.0.0.2")
    assert not is_own("203.0.113.7")
