"""The message of the demo at its end follows from its runs, whatever they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import polyrhythm as pr
from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.records.directory import save
from polyrhythm.core.records.outcome import Outcome, Summary

ROOT = Path(__file__).resolve().parents[2]


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = loaded(ROOT / "examples" / "demo.py")
draw_demo = loaded(ROOT / "docs" / "draw_demo.py")


def ran(system: str, network: str | None, curve: dict[float, float]) -> Outcome:
    workers = 16 if network else 1
    since = [0.0, *curve]
    events = [Evaluated(at, "worker/0", 1, {"bits": bits}, 0, before) for (at, bits), before in zip(curve.items(), since, strict=False)]
    return Outcome(Summary(system, workers, "simulator", network, 0, virtual_seconds=max(curve)), list(events))


ONE = ran("single", None, {10.0: 3.5, 20.0: 3.4})


def test_the_message_states_on_each_network_who_gains_and_who_loses() -> None:
    joined = [
        ran("allreduce", "lan", {2.0: 3.3}),
        ran("ssp", "slow", {90.0: 3.5}),
        ran("allreduce", "slow", {30.0: 3.4}),
        ran("direct", "slow", {8.0: 3.39}),
    ]
    assert demo.message(ONE, joined) == (
        "One machine reaches bits 3.4 between 10 and 20 s of virtual time. Of 16, over lan allreduce is 10 times as fast as one; "
        "over slow direct is 2.5 times as fast as one, allreduce takes 1.5 times as long as one, ssp does not reach the target."
    )


def test_the_message_reports_it_where_one_machine_does_not_get_there() -> None:
    assert demo.message(ran("single", None, {10.0: 3.5}), []).startswith("One machine did not reach bits 3.4")


def test_all_share_out_one_batch() -> None:
    assert demo.GLOBAL_BATCH % demo.WORKERS == 0
    assert pr.load_workload("chars-gpt", demo.SETTINGS).samples % demo.GLOBAL_BATCH == 0


def test_the_picture_is_drawn_from_what_the_virtual_runs_left(tmp_path: Path) -> None:
    for run in (ONE, ran("allreduce", "lan", {1.0: 4.0, 2.0: 3.3}), ran("ssp", "slow", {5.0: 9.0, 90.0: 3.5})):
        save(run, tmp_path / f"simulator-{run.summary.network}" / run.summary.system)
    draw_demo.draw(tmp_path, tmp_path / "demo.svg")
    drawn = (tmp_path / "demo.svg").read_text()
    assert all(f">{name}</text>" in drawn for name in ("one machine", "allreduce over lan", "ssp over slow"))
