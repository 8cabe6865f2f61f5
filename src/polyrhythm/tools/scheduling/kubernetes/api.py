"""The API server of a Kubernetes cluster: requests and watches of plain JSON, over the official client's configuration and connections.

The client's own objects are not used: its watch begins anew only once after a gap, and its models take longer than the requests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from polyrhythm.core.extras import needed
from polyrhythm.errors import CompositionError, RunError
from polyrhythm.launchers.manifest import Manifest

_SECONDS = 30.0
_CONNECTIONS = 8
_BLOCK = 65536
JSON, MERGE = "application/json", "application/merge-patch+json"
CONFLICT, MISSING, GONE = 409, 404, 410
"""Statuses of the API: a version that is not the newest or a name that is taken, no such object, and a version that is too old to watch."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of objects: the `root` of its group, such as "/api/v1", and its `plural` name; `namespaced` unless it is the cluster's."""

    root: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        """The path of all of a namespace, or of one."""
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{where}/{self.plural}" + (f"/{name}" if name else "")


PODS = ObjectKind("/api/v1", "pods")
NODES = ObjectKind("/api/v1", "nodes", namespaced=False)
LEASES = ObjectKind("/apis/coordination.k8s.io/v1", "leases")
SECRETS = ObjectKind("/api/v1", "secrets")
SERVICES = ObjectKind("/api/v1", "services")
JOBS = ObjectKind("/apis/batch/v1", "jobs")
SLICES = ObjectKind("/apis/resource.k8s.io/v1", "resourceslices", namespaced=False)


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer of the API server: the HTTP status, and an object or the reason of a refusal."""

    status: int
    body: Manifest = field(repr=False)

    @property
    def taken(self) -> bool:
        """True if the request was carried out."""
        return self.status < 300

    @property
    def reason(self) -> str:
        """Why not, as one word of Kubernetes, such as "AlreadyExists"; empty if it was."""
        return "" if self.taken else str(self.body.get("reason", ""))

    @property
    def sentence(self) -> str:
        """Why not, in words."""
        return str(self.body.get("message", f"status {self.status}"))


class Api(Protocol):
    """Requests to an API server. Raises RunError where it cannot be reached."""

    def ask(self, method: str, path: str, body: Manifest | None = None, query: Mapping[str, str] | None = None) -> ApiAnswer:
        """One request; a PATCH is a merge patch (RFC 7386)."""

    def follow(self, path: str, query: Mapping[str, str], seconds: float) -> Iterator[Manifest]:
        """The events of a watch, until the server ends it, or says nothing for so many seconds."""


class ClusterApi:
    """The API server of a configuration of the official client, which has the address, the certificates and the user's credentials."""

    def __init__(self, configuration: Any) -> None:
        client = needed("kubernetes.client", "kubernetes")
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.retries = False
        self._client = client.ApiClient(configuration)
        self._errors = needed("urllib3.exceptions", "kubernetes").HTTPError

    @staticmethod
    def found(context: str | None = None) -> ClusterApi:
        """The cluster of `context` in the user's kubeconfig, or the one that this process runs in. Raises CompositionError without one."""
        client, config = needed("kubernetes.client", "kubernetes"), needed("kubernetes.config", "kubernetes")
        configuration = client.Configuration()
        try:
            # the client looks at the variable only when it is imported
            config.load_kube_config(os.environ.get("KUBECONFIG"), context, configuration)
        except config.ConfigException as problem:
            if context is not None:
                raise CompositionError(
                    f"The context {context!r} cannot be used: {problem}. `kubectl config get-contexts` lists them."
                ) from problem
            try:
                config.load_incluster_config(client_configuration=configuration)
            except config.ConfigException:
                raise CompositionError(
                    f"No Kubernetes cluster is configured here: {problem}. Set KUBECONFIG, or run in a pod."
                ) from problem
        return ClusterApi(configuration)

    def ask(self, method: str, path: str, body: Manifest | None = None, query: Mapping[str, str] | None = None) -> ApiAnswer:
        """One request; a PATCH is a merge patch (RFC 7386)."""
        content = MERGE if method == "PATCH" else JSON
        response = self._sent(method, path, {} if query is None else query, content, body, _SECONDS, whole=True)
        try:
            answered = msgspec.json.decode(response.data) if response.data else {}
        except msgspec.DecodeError:
            answered = {"message": response.data.decode(errors="replace")}
        return ApiAnswer(response.status, answered if isinstance(answered, dict) else {"value": answered})

    def follow(self, path: str, query: Mapping[str, str], seconds: float) -> Iterator[Manifest]:
        """The events of a watch, until the server ends it, or says nothing for so many seconds."""
        response = self._sent("GET", path, {**query, "watch": "true"}, JSON, None, seconds, whole=False)
        rest = b""
        try:
            for block in response.stream(_BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                yield from (msgspec.json.decode(line) for line in lines if line)
            if rest:  # a refusal is one object without an end of line
                yield {"type": "ERROR", "object": msgspec.json.decode(rest)}
        except (self._errors, OSError, msgspec.DecodeError) as problem:
            raise RunError(f"The watch of {path} was broken off: {problem}") from problem
        finally:
            response.close()

    def _sent(
        self, method: str, path: str, query: Mapping[str, str], content: str, body: Manifest | None, seconds: float, whole: bool
    ) -> Any:
        headers = {"Accept": JSON, **({"Content-Type": content} if body is not None else {})}
        asked = self._client.param_serialize(
            method, path, query_params=list(query.items()), header_params=headers, auth_settings=["BearerToken"]
        )
        data = None if body is None else msgspec.json.encode(body)
        pool = self._client.rest_client.pool_manager
        try:
            return pool.request(method, asked[1], body=data, headers=asked[2], timeout=seconds, preload_content=whole)
        except (self._errors, OSError) as problem:
            raise RunError(f"The API server of Kubernetes cannot be reached: {problem}") from problem
