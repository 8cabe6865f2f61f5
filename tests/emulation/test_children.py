"""What the lab's own processes say when something went wrong before anything was carried; none of it needs root."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from polyrhythm.errors import RunError
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json
from polyrhythm.tools.emulation import children, host
from polyrhythm.tools.emulation.children import LabProcesses
from polyrhythm.tools.emulation.fabric import RelayTraffic
from polyrhythm.tools.emulation.impairments import Impairments
from polyrhythm.tools.emulation.orders import HostOrders, RelayOrders

QUICK = Network.uniform("quick", "200 Mbit/s", "1 ms")


def test_a_relay_whose_hosts_died_before_they_had_devices_has_carried_nothing() -> None:
    doors, ends = zip(*(socket.socketpair() for _ in range(2)), strict=True)
    for end in ends:
        end.close()
    descriptors = [door.fileno() for door in doors]
    orders = RelayOrders(network_json(QUICK), descriptors, Impairments(), False)
    command = [sys.executable, "-m", "polyrhythm.tools.emulation.relay"]
    done = subprocess.run(command, input=msgspec.json.encode(orders) + b"\n", stdout=subprocess.PIPE, pass_fds=descriptors, timeout=60)
    for door in doors:
        door.close()
    assert done.returncode == 0
    assert msgspec.json.decode(done.stdout, type=RelayTraffic) == RelayTraffic.none(2)


@pytest.mark.parametrize(
    ("script", "words"),
    [("pass", "has failed"), ("raise SystemExit(3)", "has failed"), ("import time; time.sleep(60)", "did not end within 0.5 s")],
)
def test_a_relay_that_sends_nothing_is_reported_with_one_sentence(monkeypatch: pytest.MonkeyPatch, script: str, words: str) -> None:
    monkeypatch.setattr(children, "_END_SECONDS", 0.5 if "sleep" in script else 60.0)
    started = LabProcesses(QUICK, Impairments(), False)
    started._relay = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        with pytest.raises(RunError, match=words):
            started.end_relay()
    finally:
        started.kill()


@pytest.mark.parametrize(("name", "folder"), [("bbré", "."), ("no-such", "nowhere")])
def test_a_congestion_control_that_cannot_be_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, folder: str
) -> None:
    (tmp_path / "allowed").write_text("reno cubic\n")
    monkeypatch.setattr(host, "_CONGESTION", tmp_path / folder / "chosen")
    monkeypatch.setattr(host, "_ALLOWED", tmp_path / "allowed")
    refusals, refusal = os.pipe()
    orders = HostOrders(0, 2, ["true"], {}, name, True, -1, refusal, os.getpid())
    with pytest.raises(SystemExit) as ended:
        host._choose_congestion(orders)
    printed = os.read(refusals, 4096).decode()
    os.close(refusals)
    os.close(refusal)
    assert ended.value.code == host.REFUSED
    assert name in printed
    assert "give one of reno, cubic" in printed
