"""The lab itself: what runs where root may make hosts, and the error where it may not. One of the two is always checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.hardware import network
from polyrhythm.hardware.network import Network
from polyrhythm.tools.emulation.lab import Lab, LabResult, run

QUICK = Network.uniform("quick", "200 Mbit/s", "1 ms")
STUBBORN = "(setsid sleep {mark} &); trap '' TERM; echo up; sleep {mark}"


def possible() -> bool:
    """Whether this machine lets us make a host."""
    probe = ["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "true"]
    try:
        return os.geteuid() == 0 and Path("/dev/net/tun").exists() and subprocess.run(probe, check=False).returncode == 0
    except FileNotFoundError:
        return False


def started(*words: str, hosts: int = 2) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "polyrhythm", "lab", "--hosts", str(hosts), "--network", "slow", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def alive(mark: str) -> list[str]:
    """The processes whose last argument is `mark`."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        if words == [b"sleep", mark.encode()]:
            found.append(each.parent.name)
    return found


def seen_within(seconds: float, fact: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def shown(lab: Lab, command: Sequence[str]) -> tuple[LabResult, list[tuple[int, str, str]]]:
    lines: list[tuple[int, str, str]] = []
    outcome = run(lab, command, lambda *line: lines.append(line))
    return outcome, sorted(lines)


def each_host_finds_itself_and_its_peers() -> None:
    script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $POLYRHYTHM_HOST_ADDR $(hostname); stat -Lc %i /proc/self/ns/net >&2"
    outcome, lines = shown(Lab(QUICK, 2), ["sh", "-c", script])
    assert outcome.codes == (0, 0)
    out = [(host, line) for host, name, line in lines if name == "stdout"]
    assert out == [(0, "0 2 0 10.77.0.1 10.77.0.1 host-0"), (1, "1 2 0 10.77.0.1 10.77.0.2 host-1")]
    stacks = {line for _, name, line in lines if name == "stderr"} | {str(os.stat("/proc/self/ns/net").st_ino)}
    assert len(stacks) == 3


EXCHANGE = """
import os, socket, time
if os.environ["RANK"] == "0":
    door = socket.create_server(("", 5000))
    socket.create_server(("127.0.0.1", 5001)).close()  # loopback is up
    peer, _ = door.accept()
    taken = b""
    while part := peer.recv(65536):
        taken += part
    print(len(taken))
else:
    for attempt in range(1000):
        try:
            peer = socket.create_connection(("host-0", 5000))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    peer.sendall(bytes(300_000))
"""


def bytes_between_hosts_arrive_and_are_counted() -> None:
    outcome, lines = shown(Lab(QUICK, 2), [sys.executable, "-c", EXCHANGE])
    assert outcome.codes == (0, 0)
    assert lines == [(0, "stdout", "300000")]
    assert outcome.traffic.nbytes[1][0] >= 300_000
    assert outcome.traffic.nbytes[0][1] == 0


def the_first_host_to_fail_ends_the_others_and_gives_the_exit_code() -> None:
    mark = f"4{os.getpid()}"
    lab = started("--", "sh", "-c", f"[ $RANK = 1 ] && exit 7; {STUBBORN.format(mark=mark)}")
    _, err = lab.communicate(timeout=30)
    assert lab.returncode == 7, err
    assert "polyrhythm: host 1 failed with exit code 7; what still ran was ended" in err
    assert not alive(mark)


def nothing_is_left_when_the_lab_is_ended_by(number: signal.Signals, code: int) -> None:
    mark = f"{5 + number}{os.getpid()}"
    lab = started("--", "sh", "-c", STUBBORN.format(mark=mark))
    assert lab.stdout is not None
    assert {lab.stdout.readline(), lab.stdout.readline()} == {"host 0 | up\n", "host 1 | up\n"}
    lab.send_signal(number)
    _, err = lab.communicate(timeout=30)
    assert (lab.returncode, "Traceback" in err) == (code, False)
    assert seen_within(5, lambda: not alive(mark))


def a_json_object_is_all_that_stdout_has() -> None:
    lab = started("--json", "--", "sh", "-c", "echo printed")
    out, err = lab.communicate(timeout=30)
    assert json.loads(out)["codes"] == [0, 0]
    assert sorted(err.splitlines()) == ["host 0 | printed", "host 1 | printed"]


JOIN = """
import polyrhythm as pr
import torch
worker = pr.join()
model = torch.nn.Linear(1, 1)
model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
x = torch.linspace(-1, 1, 8).view(-1, 1)
for a, b in worker.batches((x, 2 * x), batch_size=2):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
worker.finish()
print(model.weight.item())
"""


def workers_join_across_hosts() -> None:
    outcome, lines = shown(Lab(QUICK, 2), [sys.executable, "-c", JOIN])
    assert outcome.codes == (0, 0), lines
    weights = [line for _, name, line in lines if name == "stdout"]
    assert len(weights) == 2
    assert weights[0] == weights[1]
    assert outcome.traffic.nbytes[0][1] > 0


RATES = """
import torch
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment

async def send(port):
    large, small = torch.zeros(250_000), torch.zeros(2_000)
    await port.send("worker/1", Message("large", tensors=(large,)))
    rates = [await port.flush("worker/1", rated=True)]
    for _ in range(20):
        await port.send("worker/1", Message("small", tensors=(small,)))
        rates.append(await port.flush("worker/1", rated=True))
        await port.sleep(0.03)
    print(min(rates), max(rates))

async def receive(port):
    for topic in ("large", *["small"] * 20):
        await port.receive(topic, "worker/0")

place = find_rank_environment()
with enter(Job(2, 0, lambda context: None, None, lambda name: True), lambda event: None, place) as joined:
    joined.context.perform((send, receive)[place.rank](joined.context.port))
    joined.leave()
"""


def a_flush_brings_the_rate_of_the_line_though_small_messages_leave_at_once() -> None:
    outcome, lines = shown(Lab(Network.uniform("narrow", "20 Mbit/s", "2 ms"), 2), [sys.executable, "-c", RATES])
    assert outcome.codes == (0, 0), lines
    (printed,) = [line for _, name, line in lines if name == "stdout"]
    least, most = map(float, printed.split())
    assert 0.2 * 2.5e6 < least <= most < 2 * 2.5e6  # by the time alone a hundred times as much


def the_refusal_is_one_sentence() -> None:
    with pytest.raises(CompositionError, match="lab"):
        run(Lab(QUICK, 2), ["true"], lambda *line: None)
    lab = started("--", "true")
    out, err = lab.communicate(timeout=30)
    assert (lab.returncode, out, err.count("\n")) == (2, "", 1)


def checks() -> Iterator[object]:
    if not possible():
        yield pytest.param(the_refusal_is_one_sentence, (), id="the refusal is one sentence")
        return
    for check in (
        each_host_finds_itself_and_its_peers,
        bytes_between_hosts_arrive_and_are_counted,
        the_first_host_to_fail_ends_the_others_and_gives_the_exit_code,
        a_json_object_is_all_that_stdout_has,
        workers_join_across_hosts,
        a_flush_brings_the_rate_of_the_line_though_small_messages_leave_at_once,
    ):
        yield pytest.param(check, (), id=check.__name__)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):
        yield pytest.param(nothing_is_left_when_the_lab_is_ended_by, (number, code), id=f"nothing_is_left_after_{number.name}")


@pytest.mark.parametrize(("check", "arguments"), list(checks()))
def test_the_lab_does_what_it_can_on_this_machine(check: Callable[..., None], arguments: tuple[object, ...]) -> None:
    check(*arguments)


def test_what_is_not_root_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CompositionError, match="requires root"):
        run(Lab(network.load("slow"), 2), ["true"], lambda *line: None)


def test_a_machine_without_tun_devices_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("polyrhythm.tools.emulation.requirements.TUN", tmp_path / "tun")
    with pytest.raises(CompositionError, match="load the module tun"):
        run(Lab(network.load("slow"), 2), ["true"], lambda *line: None)


@pytest.mark.parametrize(
    ("hosts", "command", "words"),
    [(0, ["true"], "0 hosts"), (251, ["true"], "251 hosts"), (2, [], "No command"), (2, ["no-such-program"], "no-such-program")],
)
def test_what_cannot_be_run_is_refused(hosts: int, command: list[str], words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        run(Lab(QUICK, hosts), command, lambda *line: None)
