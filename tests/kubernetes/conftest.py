"""The same tests on a stub of the API server, and with RIG=real (`make test-kubernetes`) on a control plane of Kubernetes itself."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from planes import ControlPlane, control_plane

from polyrhythm.tools.scheduling.kubernetes.api import JOBS, NODES, PODS, Api

_numbers = itertools.count()
RIGS = [os.environ.get("RIG", "stub")]
# Kubernetes 1.20 has no scheduling gates, which `--through kubernetes` needs
collect_ignore = ["test_training_jobs_there.py"] if RIGS == ["real"] else ["test_differential.py"]


@pytest.fixture(scope="session", params=RIGS)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for all tests of the session."""
    made = control_plane(request.param, tmp_path_factory.mktemp("plane") / "files")
    made.start()
    yield made
    made.close()


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    """A client."""
    return plane.api()


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace of its own; nodes are the cluster's, so tests name theirs for it, and no other test has them or its pods."""
    name = f"t{next(_numbers)}"
    made = api.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    assert made.taken, made.sentence
    yield name
    for job in api.ask("GET", JOBS.path(name)).body["items"]:
        api.ask("DELETE", JOBS.path(name, job["metadata"]["name"]), {"propagationPolicy": "Background"})
    for pod in api.ask("GET", PODS.path(name)).body["items"]:
        api.ask("DELETE", PODS.path(name, pod["metadata"]["name"]), {"gracePeriodSeconds": 0})
    for node in api.ask("GET", NODES.path("")).body["items"]:
        if node["metadata"]["name"].startswith(f"{name}-"):
            api.ask("DELETE", NODES.path("", node["metadata"]["name"]))
