"""The stub beside a real control plane: status codes and reasons of all requests are equal. Only with RIG=real."""

from __future__ import annotations

from pathlib import Path

from scenario import carried_out
from stub_server import StubControlPlane

from polyrhythm.tools.scheduling.kubernetes.api import Api


def test_the_stub_answers_as_a_real_server(api: Api, namespace: str, tmp_path: Path) -> None:
    stub = StubControlPlane(tmp_path)
    stub.start()
    try:
        assert carried_out(stub.api(), namespace) == carried_out(api, namespace)
    finally:
        stub.close()
