"""What the API answers is what the scheduler relies on, on the stub as on a real server."""

from __future__ import annotations

import time

from planes import ControlPlane
from scenario import EXPECTED, carried_out

from polyrhythm.tools.scheduling.kubernetes.api import PODS, Api


def test_the_server_answers_as_a_real_one(api: Api, namespace: str) -> None:
    assert carried_out(api, namespace) == EXPECTED


def test_a_watch_from_a_version_that_is_forgotten_has_a_gap(plane: ControlPlane, api: Api, namespace: str) -> None:
    answer = api.ask("GET", PODS.path(namespace))
    assert answer.taken
    query = {"resourceVersion": "1", "timeoutSeconds": "5"}
    plane.compact()
    event = next(iter(api.follow(PODS.path(namespace), query, 10.0)))
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_server_that_is_away_is_an_error(plane: ControlPlane) -> None:
    import kubernetes.client
    import pytest

    from polyrhythm.errors import RunError
    from polyrhythm.tools.scheduling.kubernetes.api import ClusterApi

    began = time.monotonic()
    with pytest.raises(RunError, match="cannot be reached"):
        ClusterApi(kubernetes.client.Configuration(host="http://127.0.0.1:9")).ask("GET", "/version")
    assert time.monotonic() - began < 5
