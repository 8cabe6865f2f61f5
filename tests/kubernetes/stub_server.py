"""A stub of an API server on the wire: the official client, unpatched, talks to it as to a real one."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import kubernetes.client
from stub_controllers import StubJobController
from stub_scheduler import StubScheduler
from stub_store import KINDS, Refused, StubStore

from polyrhythm.tools.scheduling.kubernetes.api import ClusterApi

_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: stub, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{}}}}]
contexts: [{{name: stub, context: {{cluster: stub, user: nobody}}}}]
current-context: stub
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one segment: two meet a delayed acknowledgement
    store: StubStore

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tests say what they do."""

    def _answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        where = urlsplit(self.path)
        try:
            status, answered = self._carried_out(where.path.strip("/").split("/"), dict(parse_qsl(where.query)), body)
        except Refused as refused:
            status, answered = refused.status, refused.body
        if answered is not None:
            self._send(status, answered)

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _carried_out(self, path: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        root, rest = ("/" + "/".join(path[:2]), path[2:]) if path[0] == "api" else ("/" + "/".join(path[:3]), path[3:])
        namespace = rest[1] if len(rest) > 2 and rest[0] == "namespaces" else ""
        rest = rest[2:] if namespace else rest
        plural, name, part = (*rest, "", "", "")[:3]
        if plural not in KINDS or KINDS[plural][0] != root:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        if query.get("watch") == "true":
            self._watch(plural, namespace, query)
            return 200, None
        match self.command, bool(name):
            case "GET", False:
                return 200, self.store.listed(plural, namespace, query.get("labelSelector", ""))
            case "GET", True:
                return 200, self.store.get(plural, namespace, name)
            case "POST", False:
                return 201, self.store.create(plural, namespace, body)
            case "POST", True if part == "binding":
                self.store.bind(namespace, name, body)
                return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
            case "PUT", True:
                return 200, self.store.replace(plural, namespace, name, body)
            case "PATCH", True:
                if self.headers["Content-Type"] != "application/merge-patch+json":
                    raise Refused(415, "UnsupportedMediaType", "the stub has merge patches only")
                return 200, self.store.patch(plural, namespace, name, body, part)
            case "DELETE", True:
                return 200, self.store.delete(plural, namespace, name, body)
        raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _watch(self, plural: str, namespace: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        version, seconds = int(query.get("resourceVersion") or 0), float(query.get("timeoutSeconds", 60))
        with suppress(OSError):
            try:
                for event in self.store.watch(plural, namespace, version, query.get("labelSelector", ""), seconds):
                    self._chunk(json.dumps(event).encode() + b"\n")
            except Refused as refused:
                self._chunk(json.dumps({"type": "ERROR", "object": refused.body}).encode() + b"\n")
            self._chunk(b"")
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed break their connections."""


class StubControlPlane:
    """The stub of an API server, of kube-scheduler and of the controller of Jobs; `folder` gets a kubeconfig."""

    kind = "stub"

    def __init__(self, folder: Path) -> None:
        self.store = StubStore()
        handler = type("Handler", (_Handler,), {"store": self.store})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._controllers = [each(self.store).follower for each in (StubScheduler, StubJobController)]
        folder.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(_KUBECONFIG.format(port=self._server.server_address[1]))

    def start(self) -> None:
        """Serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        for each in self._controllers:
            each.start()

    def api(self) -> ClusterApi:
        """A client with connections of its own."""
        return ClusterApi(kubernetes.client.Configuration(host=f"http://127.0.0.1:{self._server.server_address[1]}"))

    def compact(self) -> None:
        """Forget all events."""
        self.store.compact()

    def close(self) -> None:
        """End."""
        self.store.over = True
        self._server.shutdown()
        self._server.server_close()
        for each in self._controllers:
            each.close()
