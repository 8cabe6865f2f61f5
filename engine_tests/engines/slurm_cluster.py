"""SLURM on this host alone: its controller and two nodes, n0 and n1, each a daemon with a port of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NODES = ("n0", "n1")
_READY_SECONDS = 90.0

_CONFIGURATION = """\
ClusterName=polyrhythm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# the names of nodes are no names of hosts here, as on clusters whose name service does not have them
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The variables with which SLURM's commands find it; all daemons have ended afterwards."""
    host = socket.gethostname().partition(".")[0]
    ports = _free_ports(1 + len(NODES))
    (folder / "state").mkdir()
    for node in NODES:
        (folder / f"spool-{node}").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    nodes = "\n".join(_NODE.format(name=name, host=host, port=port) for name, port in zip(NODES, ports[1:], strict=True))
    configuration = folder / "slurm.conf"
    configuration.write_text(_CONFIGURATION.format(host=host, controller=ports[0], folder=folder, nodes=nodes))
    variables = {"SLURM_CONF": str(configuration)}
    munge = [f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("key-file", "socket", "pid-file", "log-file", "seed-file")]
    daemons: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (folder / "daemons.log").open("ab") as log:
            daemons.append(
                subprocess.Popen(command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            )

    try:
        start("/usr/sbin/munged", "--foreground", "--force", *munge)
        _await((folder / "munge.socket").exists, folder)
        start("/usr/sbin/slurmctld", "-D", "-i", "-f", str(configuration))
        for node in NODES:
            start("/usr/sbin/slurmd", "-D", "-N", node, "-f", str(configuration))
        _await(lambda: _idle(variables), folder)
        yield variables
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _idle(variables: dict[str, str]) -> bool:
    command = ["sinfo", "--noheader", "--Node", "--format=%N %t"]
    shown = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False).stdout
    return sorted(shown.split("\n")[:-1]) == [f"{node} idle" for node in NODES]


def _await(ready: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not ready():
        assert time.monotonic() < deadline, (folder / "daemons.log").read_text()
        time.sleep(0.2)
