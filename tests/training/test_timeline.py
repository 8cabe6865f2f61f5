"""What a timeline records, and only on request: the phases of each tensor's exchange, and messages."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import SLOW, Toy

from polyrhythm.core.kernel.events import Delivered, Progressed, Sent
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile
from polyrhythm.topology import AllReduce, Bucketed, Deferred, Delayed, Keyed, ServedSums, Summation

TOY = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05), epochs=1)
VIRTUAL = Simulator(network=SLOW, devices=Profile("measured", (0.05,)))
RUNTIMES = {"simulator": VIRTUAL, "processes": Processes()}
NAMES = {"0.weight", "0.bias", "2.weight", "2.bias"}
PHASES = ["negotiation", "queue", "copy in", "exchange", "copy out"]


def timed(strategy: Any, on: Runtime = VIRTUAL, timeline: bool = True) -> Run:
    return run(TOY, workers=2, strategy=strategy, on=on, seed=5, timeline=timeline)


def kinds(found: Run, kind: Any) -> list[Any]:
    return [event for event in found.outcome.events if isinstance(event, kind)]


@pytest.mark.parametrize("on", RUNTIMES.values(), ids=RUNTIMES)
def test_every_tensor_of_every_step_goes_through_all_phases(on: Runtime) -> None:
    found = timed("horovod", on)
    steps = found.summary.steps
    for rank in range(2):
        for name in NAMES:
            mine = [event for event in kinds(found, Progressed) if (event.actor, event.tensor) == (f"worker/{rank}", name)]
            assert [event.phase for event in mine] == PHASES * steps
            assert all(one.time <= two.time - two.seconds + 1e-9 for one, two in pairwise(mine))


@pytest.mark.parametrize("on", RUNTIMES.values(), ids=RUNTIMES)
def test_nothing_of_it_is_recorded_unasked_and_it_changes_nothing(on: Runtime) -> None:
    plain, found = timed("bitvector", on, timeline=False), timed("bitvector", on)
    assert not kinds(plain, Progressed | Sent | Delivered)
    assert found.summary.weights_sha256 == plain.summary.weights_sha256
    assert len(kinds(found, Sent)) == found.summary.messages_sent
    assert sum(event.nbytes for event in kinds(found, Sent)) == found.summary.bytes_sent


def test_every_message_arrives_over_its_link_after_its_latency_in_virtual_time() -> None:
    found = timed("allreduce")
    sent, arrived = kinds(found, Sent), kinds(found, Delivered)
    assert len(sent) == len(arrived) == found.summary.messages_sent
    assert all(event.seconds >= 0.02 for event in arrived)
    assert {event.link for event in arrived} == {"worker/0 to worker/1", "worker/1 to worker/0"}


@pytest.mark.parametrize(
    ("topology", "subjects", "phases"),
    [
        (AllReduce(), {"0.weight and 3 more"}, {"exchange"}),
        (Bucketed(nbytes=32), {"2.weight and 1 more", "0.bias", "0.weight"}, {"queue", "exchange"}),
        (Delayed(AllReduce(), 1), {"0.weight and 3 more"}, {"queue", "exchange"}),
        (Keyed(), NAMES, {"exchange"}),
        (ServedSums(2), NAMES, {"exchange"}),
        (Deferred(ServedSums(2)), NAMES, {"exchange"}),
        (Deferred(Summation()), NAMES, {"exchange"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_exchanges_record_what_they_have(topology: Any, subjects: set[str], phases: set[str]) -> None:
    found = timed(Strategy(topology=topology))
    assert {event.tensor for event in kinds(found, Progressed)} == subjects
    assert {event.phase for event in kinds(found, Progressed)} == phases


def test_a_trace_has_tracks_for_tensors_and_links(tmp_path: Path) -> None:
    events = json.loads(timed("horovod").trace(tmp_path / "trace.json").read_text())["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    owners = ("links", "tensors of worker/0", "tensors of worker/1")
    assert sorted(processes.values()) == ["horovod, virtual time", *(f"horovod: {owner}" for owner in owners)]
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {name for (pid, _), name in threads.items() if processes[pid] == "horovod: tensors of worker/1"} == NAMES
    assert {name for (pid, _), name in threads.items() if processes[pid] == "horovod: links"} == {
        "worker/0 to worker/1",
        "worker/1 to worker/0",
    }
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in spans} >= set(PHASES)
    for place in threads:
        mine = sorted((event["ts"], event["ts"] + event["dur"]) for event in spans if (event["pid"], event["tid"]) == place)
        assert all(one[1] <= two[0] + 1e-3 for one, two in pairwise(mine)), "on one track nothing overlaps"
