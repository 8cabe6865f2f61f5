"""OpenSSH's server on emulated hosts, with keys and a port of its own; what the machine's own server does is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
PORT = 2222
CONFIGURATION = """
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/key.pub
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
SetEnv PYTHONPATH={sources} OMP_NUM_THREADS=1
"""
ON_HOST = """
cd {directory}
if [ "$RANK" != 0 ]; then
    {server} -D -f configuration -E "log-$RANK" &
    touch "up-$RANK"
    until [ -e done ]; do sleep 0.2; done
    kill $!
    exit 0
fi
trap 'touch done' EXIT
until [ -e up-1 ] && [ -e up-2 ]; do sleep 0.2; done
sleep 1
{command}
"""


@dataclass(frozen=True, slots=True)
class SshHosts:
    """Files of servers and of those who call them, in `directory`."""

    directory: Path

    @property
    def ssh(self) -> str:
        """The command that reaches them."""
        return f"ssh -i {self.directory}/key -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={self.directory}/known"

    def lab(self, network: Path, command: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        """What `command` does on the first of three emulated hosts, while the others run a server."""
        script = self.directory / "on_host.sh"
        script.write_text(ON_HOST.format(directory=self.directory, server=shutil.which("sshd", path="/usr/sbin"), command=command))
        words = ["polyrhythm", "lab", "--quiet", "--hosts", "3", "--network", str(network), "--", "sh", str(script)]
        env = {**os.environ, "PYTHONPATH": str(SOURCES)}
        return subprocess.run([sys.executable, "-m", *words], env=env, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SshHosts]:
    """Keys and a configuration."""
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    (tmp_path / "configuration").write_text(CONFIGURATION.format(port=PORT, directory=tmp_path, sources=SOURCES))
    before = os.umask(0o022)
    yield SshHosts(tmp_path)
    os.umask(before)
