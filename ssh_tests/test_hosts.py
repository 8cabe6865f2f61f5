"""`polyrhythm calibrate --hosts` over OpenSSH, on emulated hosts whose lines are known: `make test-ssh`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ssh_hosts import PORT, SshHosts

from polyrhythm.hardware import network as networks
from polyrhythm.hardware.fleet import fleet
from polyrhythm.hardware.network import Network

LINES = {
    "name": "three",
    "sites": [
        {"name": "office", "egress": "40 Mbit/s", "ingress": "80 Mbit/s", "latency": "1 ms"},
        {"name": "home", "egress": "10 Mbit/s", "ingress": "50 Mbit/s", "latency": "1 ms"},
        {"name": "wifi", "egress": "30 Mbit/s", "latency": "1 ms"},
    ],
    "links": [
        {"from": "office", "to": "home", "latency": "15 ms"},
        {"from": "office", "to": "wifi", "latency": "8 ms", "jitter": "4 ms"},
        {"from": "home", "to": "wifi", "latency": "20 ms"},
    ],
    "placement": {"type": "WithWorkers"},
}
JOB = """
import torch
x = torch.randn(2048, 32, generator=torch.Generator().manual_seed(0))

def train(worker, epochs=4, lr=0.1, batch_size=16):
    model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
    for _ in range(epochs):
        for (a,) in worker.batches((x,), batch_size=batch_size):
            optimizer.zero_grad()
            model(a).square().mean().backward()
            optimizer.step()
"""


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.json"
    path.write_text(json.dumps(LINES))
    return path


def calibrate(hosts: SshHosts, given: str, ssh: str = "") -> str:
    return f"{sys.executable} -m polyrhythm calibrate {given} --ssh '{ssh or hosts.ssh}' --python {sys.executable}"


def report(given: Network, found: Network) -> list[tuple[str, float, float, float]]:
    """Each line's figures by name: as it is, as it was measured, and by how much these may differ.

    TCP hands over no packet before those that were sent earlier, so that messages on a line with jitter take longer than its latency.
    """
    rows = []
    names = [site.name for site in given.sites]
    for a, here in enumerate(given.sites):
        for b, there in enumerate(given.sites):
            if a != b:
                rate, latency = min(here.egress, there.ingress), given.latency[a][b]
                rows.append((f"{names[a]} to {names[b]}, rate", rate, found.capacity[a][b], 0.1 * rate))
                rows.append((f"{names[a]} to {names[b]}, latency", latency, found.latency[a][b], 0.002 + given.site_jitter(a, b)))
    return rows


def test_the_lines_and_machines_of_three_hosts_are_found_over_ssh(hosts: SshHosts, lines: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(JOB)
    file = tmp_path / "hosts.toml"
    names = "".join(
        f'[[hosts]]\nhost = "{host}"\nname = "{name}"\n' for host, name in zip(_targets(), ("office", "home", "wifi"), strict=True)
    )
    file.write_text(names)
    done = hosts.lab(lines, calibrate(hosts, f"train.py --hosts {file} --out mine"))
    assert done.returncode == 0, done.stderr
    given, found = networks.load(lines), networks.load(tmp_path / "mine")
    for name, true, measured, near in report(given, found):
        print(f"{name}: {true:g}, measured {measured:g} ({measured / true - 1:+.1%})")
        assert measured == pytest.approx(true, abs=near), name
    assert found.site_jitter(0, 2) == pytest.approx(0.004, rel=0.5)
    assert found.site_jitter(0, 1) == found.site_jitter(1, 0) == 0
    people = fleet(tmp_path / "mine")
    assert [people.machine(worker).name for worker in range(3)] == ["office", "home", "wifi"]


def _targets() -> list[str]:
    return ["here", f"root@host-1:{PORT}", f"root@host-2:{PORT}"]


def test_a_host_whose_key_is_unknown_and_one_that_is_not_there_are_named(hosts: SshHosts, lines: Path) -> None:
    strict = f"ssh -i {hosts.directory}/key -o UserKnownHostsFile={hosts.directory}/none"
    done = hosts.lab(lines, calibrate(hosts, f"--hosts root@host-1:{PORT},root@host-2:2999", strict))
    assert done.returncode == 1
    assert "host-1 (root@host-1:2222) has a key that ssh does not know" in done.stderr
    assert "host-2 (root@host-2:2999) takes no connections there" in done.stderr


def test_nothing_is_left_on_the_hosts_when_the_calibration_is_killed(hosts: SshHosts, lines: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(JOB)
    long = calibrate(hosts, f"train.py --hosts {','.join(_targets()[1:])} --steps 1000000 --set epochs=1000000")
    look = f"{hosts.ssh} -p {PORT} root@host-1 pgrep -fc '[s]urvey_agent' || true"
    done = hosts.lab(lines, f"timeout -s KILL 30 {long}\necho before; sleep 10; {look}; echo after")
    assert "before\n0\nafter" in done.stdout, (done.stdout, done.stderr)
