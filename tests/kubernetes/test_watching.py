"""Watching tells what happens, also after a gap."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

from hollow import pod
from planes import ControlPlane
from waiting import until

from polyrhythm.tools.scheduling.kubernetes.api import PODS, Api
from polyrhythm.tools.scheduling.kubernetes.mirror import ObjectMirror
from polyrhythm.tools.scheduling.kubernetes.watching import LISTED, Heard, Watching


def _follow(mirror: ObjectMirror, heard: Heard) -> dict[str, str]:
    try:
        while True:
            _, kind, item = heard.get_nowait()
            if kind == LISTED:
                mirror.replace(item["items"])
            else:
                mirror.take(kind, item)
    except Empty:
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in mirror.objects}


def _there(api: Api, namespace: str) -> dict[str, str]:
    items: list[dict[str, Any]] = api.ask("GET", PODS.path(namespace)).body["items"]
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}


def test_after_a_gap_the_mirror_is_what_there_is(plane: ControlPlane, api: Api, namespace: str) -> None:
    heard: Heard = SimpleQueue()
    watching, mirror = Watching(plane.api(), PODS, namespace, heard), ObjectMirror()
    watching.start()
    for number in range(4):
        assert api.ask("POST", PODS.path(namespace), pod(f"p{number}", spec={"schedulerName": "nobody's"})).taken
    until(lambda: _follow(mirror, heard) == _there(api, namespace))
    assert api.ask("DELETE", PODS.path(namespace, "p1")).taken
    plane.compact()
    assert api.ask("PATCH", PODS.path(namespace, "p2"), {"metadata": {"labels": {"x": "y"}}}).taken
    assert api.ask("POST", PODS.path(namespace), pod("late", spec={"schedulerName": "nobody's"})).taken
    until(lambda: _follow(mirror, heard) == _there(api, namespace) and len(mirror.objects) == 4)
    watching.close()
