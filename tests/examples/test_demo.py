"""What the demo says at its end follows from its runs, whatever they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import polyrhythm as pr
from polyrhythm.kernel.events import Evaluated
from polyrhythm.report.outcome import Outcome, Summary

FILE = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
spec = importlib.util.spec_from_file_location("demo", FILE)
assert spec is not None
assert spec.loader is not None
demo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(demo)


def ran(system: str, network: str | None, curve: dict[float, float]) -> Outcome:
    workers = 16 if network else 1
    events = [Evaluated(at, "worker/0", 1, {"bits": bits}, 0, 0.0) for at, bits in curve.items()]
    return Outcome(Summary(system, workers, "simulator", network, 0, virtual_seconds=max(curve)), list(events))


ONE = ran("single", None, {10.0: 3.5, 20.0: 3.4})


def test_the_message_says_on_each_network_who_gains_and_who_loses() -> None:
    joined = [
        ran("allreduce", "lan", {2.0: 3.3}),
        ran("ssp", "slow", {90.0: 3.5}),
        ran("allreduce", "slow", {30.0: 3.4}),
        ran("direct", "slow", {8.0: 3.39}),
    ]
    assert demo.message(ONE, joined) == (
        "One machine takes 20 s of virtual time to bits 3.4. Of 16, over lan allreduce is 10 times as fast as one; "
        "over slow direct is 2.5 times as fast as one, allreduce takes 1.5 times as long as one, ssp does not get there."
    )


def test_the_message_says_so_where_one_machine_does_not_get_there() -> None:
    assert demo.message(ran("single", None, {10.0: 3.5}), []).startswith("One machine did not reach bits 3.4")


def test_all_share_out_one_batch() -> None:
    assert demo.GLOBAL_BATCH % demo.WORKERS == 0
    assert pr.load_workload("chars-gpt", demo.SETTINGS).samples % demo.GLOBAL_BATCH == 0
