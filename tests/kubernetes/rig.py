"""A control plane of Kubernetes on loopback: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, as `build.sh` leaves them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import kubernetes.client

from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.errors import RunError
from polyrhythm.tools.scheduling.kubernetes.api import ClusterApi

FOLDER = Path(os.environ.get("POLYRHYTHM_KUBERNETES") or Path.home() / ".cache/polyrhythm/kubernetes")
_TOKEN = "a-token-of-tests"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: rig, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: "{folder}/pki/apiserver.crt"}}}}]
users: [{{name: admin, user: {{token: {token}}}}}]
contexts: [{{name: rig, context: {{cluster: rig, user: admin}}}}]
current-context: rig
"""
_READY_SECONDS = 60.0


class RealControlPlane:
    """The four programs, with all that they write in `folder`; they end with this process."""

    kind = "real"

    def __init__(self, folder: Path, bind: float = 1000.0, grace: float = 3600.0) -> None:
        self.folder = folder
        self._grace = grace  # seconds after which a node whose kubelet says nothing is not ready; most tests have no kubelets
        self._bind = bind  # requests per second of kube-scheduler: its default of 50 is less than what is measured
        self._ports = {name: _free_port() for name in ("etcd", "peer", "api", "scheduler", "controllers")}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kubeconfig = folder / "kubeconfig"

    def start(self) -> None:
        """Start all, and wait until the API server is ready."""
        (self.folder / "pki").mkdir(parents=True)
        subprocess.run(["openssl", "genrsa", "-out", "pki/sa.key", "2048"], cwd=self.folder, capture_output=True, check=True)
        (self.folder / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n")
        self.kubeconfig.write_text(_KUBECONFIG.format(port=self._ports["api"], folder=self.folder, token=_TOKEN))
        self.start_etcd()
        self.start_api()
        config = f"--kubeconfig={self.kubeconfig}"
        own = [config, "--leader-elect=false", "--port=0", "--bind-address=127.0.0.1", f"--cert-dir={self.folder}/pki"]
        rate = [f"--kube-api-qps={self._bind:g}", f"--kube-api-burst={2 * self._bind:g}"]
        self._run("kube-scheduler", [*own, *rate, f"--secure-port={self._ports['scheduler']}"])
        grace = [
            f"--node-monitor-grace-period={self._grace:g}s",
            "--node-monitor-period=1s",
            "--controllers=*,-nodeipam,-route,-cloud-node-lifecycle",
        ]
        self._run("kube-controller-manager", [*own, *rate, *grace, f"--secure-port={self._ports['controllers']}"])

    def start_etcd(self) -> None:
        """Start the store, on the files that it had."""
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peer"))
        listen = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        meet = ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--log-level", "error"]
        self._run("etcd", ["--data-dir", f"{self.folder}/etcd", "--unsafe-no-fsync=true", *listen, *meet])

    def start_api(self) -> None:
        """Start the API server, and wait until it is ready."""
        accounts = [f"--service-account-{name}-file={self.folder}/pki/sa.key" for name in ("signing-key", "key")]
        issued = ["--service-account-issuer=https://kubernetes.default.svc", "--api-audiences=api", *accounts]
        served = ["--bind-address=127.0.0.1", f"--secure-port={self._ports['api']}", f"--cert-dir={self.folder}/pki"]
        users = [f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"]
        store = [f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}", "--service-cluster-ip-range=10.96.0.0/24"]
        self._run("kube-apiserver", [*store, *served, *issued, *users, "--enable-priority-and-fairness=false"])
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if self._process_ended("kube-apiserver"):
                break
            try:
                if self.api().ask("GET", "/readyz").taken:
                    return
            except RunError:  # not there yet
                pass
            time.sleep(0.1)
        raise AssertionError(f"kube-apiserver is not ready: {(self.folder / 'kube-apiserver.log').read_text()[-2000:]}")

    def api(self) -> ClusterApi:
        """A client with connections of its own."""
        configuration: Any = kubernetes.client.Configuration(host=f"https://127.0.0.1:{self._ports['api']}")
        configuration.api_key = {"authorization": f"Bearer {_TOKEN}"}
        configuration.ssl_ca_cert = str(self.folder / "pki" / "apiserver.crt")
        return ClusterApi(configuration)

    def kill(self, name: str) -> None:
        """Kill one of the programs."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def compact(self) -> None:
        """Have etcd forget all versions but the newest, as it does every five minutes by itself, and the API server its own memory."""
        where = f"http://127.0.0.1:{self._ports['etcd']}/v3/kv"
        with urlopen(Request(f"{where}/range", b'{"key":"AA=="}', method="POST")) as answer:
            revision = answer.read().decode().split('"revision":"')[1].split('"')[0]
        urlopen(Request(f"{where}/compaction", f'{{"revision":"{revision}"}}'.encode(), method="POST")).close()
        self.kill("kube-apiserver")
        self.start_api()

    def close(self) -> None:
        """End all."""
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _process_ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def _run(self, name: str, arguments: Sequence[str]) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        bound = partial(die_with_parent, os.getpid())
        command = [str(FOLDER / "bin" / name), *arguments]
        self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, start_new_session=True, preexec_fn=bound)
        log.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
