"""The mirror is what the server has, whatever was missed and whatever comes twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.tools.scheduling.kubernetes.mirror import ObjectChange, ObjectMirror

WRITES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "delete"])), max_size=12)


def _object(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "t", "resourceVersion": str(version)}}


def _history(writes: list[tuple[str, str]]) -> list[tuple[str, dict[str, Any]]]:
    there: set[str] = set()
    events = []
    for version, (name, what) in enumerate(writes, 1):
        if what == "write":
            events.append(("MODIFIED" if name in there else "ADDED", _object(name, version)))
            there.add(name)
        elif name in there:
            events.append(("DELETED", _object(name, version)))
            there.remove(name)
    return events


def _kept(events: list[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, item in events:
        found.pop(item["metadata"]["name"], None)
        if kind != "DELETED":
            found[item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
    return found


def _shown(mirror: ObjectMirror) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in mirror.objects}


@given(WRITES, st.integers(0, 12), st.integers(0, 12))
def test_a_list_after_a_gap_and_the_events_since_give_what_there_is(writes: list[tuple[str, str]], first: int, second: int) -> None:
    events = _history(writes)
    gap, again = sorted(min(len(events), each) for each in (first, second))
    mirror = ObjectMirror()
    changes: list[ObjectChange] = []
    for kind, item in events[:gap]:
        changes += mirror.take(kind, item)
    # events from gap to again are lost: a list, and then all that follows
    listed = [_object(name, int(version)) for name, version in _kept(events[:again]).items()]
    changes += mirror.replace(listed)
    for kind, item in events[again:]:
        changes += mirror.take(kind, item)
    assert _shown(mirror) == _kept(events)
    told: dict[str, str] = {}
    for change in changes:
        before = None if change.before is None else change.before["metadata"]
        if before is not None:
            assert told.pop(before["name"]) == before["resourceVersion"]
        if change.after is not None:
            told[change.after["metadata"]["name"]] = change.after["metadata"]["resourceVersion"]
    assert told == _kept(events)


@given(WRITES)
def test_our_own_writes_come_before_their_echo(writes: list[tuple[str, str]]) -> None:
    events, mirror = _history(writes), ObjectMirror()
    for place, (kind, item) in enumerate(events):
        mirror.take(kind, item)
        for old_kind, old in events[max(0, place - 2) : place]:  # what a watch tells later
            if old_kind != "DELETED" and old["metadata"]["name"] in _shown(mirror):
                assert mirror.take(old_kind, old) == []
    assert _shown(mirror) == _kept(events)
