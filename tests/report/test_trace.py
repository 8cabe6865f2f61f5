"""The trace: what the Trace Event Format asks of each kind of event, and what the run recorded."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.core.kernel.events import Computed, Faulted, Merged, Reported, Sent, Suspected, Waited
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.training.result import Run
from polyrhythm.tools.report.trace import write

from .scenes import SYSTEMS, failed, outcome, plain

# "Trace Event Format" (Duffy et al., 2016): the fields that an event of each phase must have
FIELDS = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "C": {"name", "pid", "ts", "args"},
}


def traced(outcomes: list[Outcome], path: Path) -> list[dict[str, Any]]:
    trace = json.loads(write(outcomes, path / "trace.json").read_text(), parse_constant=pytest.fail)
    assert set(trace) == {"displayTimeUnit", "traceEvents"}
    events: list[dict[str, Any]] = trace["traceEvents"]
    return events


def eventful() -> Outcome:
    run = plain("ssp", 3.0, 90, [(1.0, 40, 0.5), (2.0, 90, float("nan"))])
    run.events += [
        Merged(1.5, "server/0", 1, [0, 2], 0.01),
        Faulted(1.7, "worker/1", "crash"),
        Suspected(1.6, "worker/1", "held", 0.2),
        Sent(0.5, "worker/0", "server/0", "push", 40),
        Computed(0.5, "worker/0", 0.5),
        Waited(1.0, "worker/0", 0.5),
        Computed(1.0, "worker/10", 1.0),
        Computed(1.0, "worker/2", 1.0),
    ]
    return run


def test_every_event_has_the_fields_of_its_phase(tmp_path: Path) -> None:
    runs = [eventful(), *(outcome(system, workers=3, steps=10) for system in SYSTEMS), failed("bagua")]
    for event in traced(runs, tmp_path):
        assert FIELDS[event["ph"]] <= set(event), event
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
        assert event.get("s", "t") in ("g", "p", "t")
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())


def test_all_time_and_all_instants_of_the_run_are_there(tmp_path: Path) -> None:
    run = outcome("ssp", workers=3, steps=10)
    events = traced([run], tmp_path)
    for name, kind in (("computing", Computed), ("waiting", Waited)):
        traced_seconds = sum(event["dur"] for event in events if event["name"] == name) / 1e6
        assert traced_seconds == pytest.approx(sum(event.seconds for event in run.events if isinstance(event, kind)), rel=1e-6)
    reports = [event for event in events if event["name"] == "report"]
    assert len(reports) == sum(isinstance(event, Reported) for event in run.events)
    assert reports[0]["args"].keys() == {"step", "loss", "accuracy"}


def test_merges_faults_and_messages_are_instants_of_their_actors(tmp_path: Path) -> None:
    events = traced([eventful()], tmp_path)
    threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert list(threads.values()) == ["worker/0", "worker/1", "worker/2", "worker/10", "server/0"]
    instants = {event["name"]: (threads[event["tid"]], event["ts"], event["args"]) for event in events if event["ph"] == "i"}
    assert instants["merge"] == ("server/0", 1.5e6, {"version": 1, "staleness": [0, 2], "seconds": 0.01})
    assert instants["fault"] == ("worker/1", 1.7e6, {"what": "crash"})
    assert instants["suspicion"] == ("worker/1", 1.6e6, {"verdict": "held", "since": 0.2})
    assert instants["send"] == ("worker/0", 0.5e6, {"to": "server/0", "topic": "push", "bytes": 40})


def test_what_one_actor_did_never_lies_over_what_it_did_next(tmp_path: Path) -> None:
    events = [event for event in traced([outcome("ssp", steps=200)], tmp_path) if event["ph"] == "X"]
    for thread in {event["tid"] for event in events}:
        mine = sorted((event for event in events if event["tid"] == thread), key=lambda event: event["ts"])
        assert all(one["ts"] + one["dur"] <= two["ts"] + 1e-6 for one, two in pairwise(mine))


def test_the_counter_of_bytes_only_grows(tmp_path: Path) -> None:
    counts = [event["args"]["bytes"] for event in traced([outcome("ssp", steps=20)], tmp_path) if event["ph"] == "C"]
    assert counts == sorted(set(counts))
    assert counts


def test_a_comparison_has_a_process_for_each_run_with_threads_of_its_own(tmp_path: Path) -> None:
    events = traced([outcome("ssp", steps=5), outcome("ssp", steps=5, on="processes", workers=2)], tmp_path)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert list(names.values()) == ["ssp, virtual time", "ssp, real time"]
    places = {(event["pid"], event["tid"]) for event in events if "tid" in event}
    assert len({thread for _, thread in places}) == len(places) == 16 + 2


def test_a_run_writes_its_own(tmp_path: Path) -> None:
    path = Run(outcome("ssp", steps=5)).trace(tmp_path / "deep" / "mine.json")
    assert json.loads(path.read_text())["traceEvents"]
