"""Run directories as they are read: damaged ones too."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from polyrhythm.core.kernel.events import AnyEvent, Reported
from polyrhythm.core.records.directory import EVENTS, RUN, WEIGHTS, save
from polyrhythm.core.records.load import load
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.tools.report.page import page
from polyrhythm.tools.report.table import text

from .scenes import outcome

SEVERAL = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FEW = settings(SEVERAL, max_examples=6)  # each draws a page


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record that nobody has touched."""
    run = outcome("ssp", workers=2, steps=10)
    run.weights = {"w": torch.arange(5.0)}
    return save(run, tmp_path_factory.mktemp("whole"))


@pytest.fixture
def kept(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "run")


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


TAILS = {
    "half a line": (lambda data: data[:-20], 1),
    "zeros": (lambda data: data + b"\0" * 4096, 0),
    "zeros in place of the end": (lambda data: data[:-300] + b"\0" * 300, 3),
    "half a character": (lambda data: data[:-1] + b'\n{"type":"Started","time":1.0,"actor":"worker/\xc3', 0),
    "several damaged lines": (lambda data: data + b"{\n]\nnull\n" + b"[" * 200_000, 0),
    "a line without its end": (lambda data: data[:-1], None),
}


@pytest.mark.parametrize(("damage", "lost"), TAILS.values(), ids=TAILS)
def test_a_damaged_end_is_cut_off_and_reported(kept: Path, damage: Callable[[bytes], bytes], lost: int | None) -> None:
    before = load(kept)
    change(kept / EVENTS, damage)
    after = load(kept)
    assert after.summary == before.summary
    assert after.events == before.events[: len(before.events) - (lost or 0)]
    assert [remark.partition(":")[0] for remark in after.remarks] == ([] if lost is None else ["The end of events.jsonl is damaged"])
    for remark in after.remarks:
        assert remark in text([after])
        assert remark in page([after], "title")


def test_damage_in_the_middle_is_counted_and_reported(kept: Path) -> None:
    before = load(kept).events
    change(
        kept / EVENTS, lambda data: b"".join(b"x" + line if index in (3, 5) else line for index, line in enumerate(data.splitlines(True)))
    )
    after = load(kept)
    assert after.events == [event for index, event in enumerate(before) if index not in (3, 5)]
    assert after.remarks == [f"2 of the {len(before)} lines of events.jsonl are damaged and left out."]


IMPOSSIBLE = {
    "before the beginning": '{"type":"Started","time":-1.0,"actor":"worker/0"}',
    "by nobody": '{"type":"Started","time":1.0,"actor":"worker/x"}',
    "for ever": '{"type":"Waited","time":1.0,"actor":"worker/0","seconds":1e300}',
    "too many": '{"type":"Stepped","time":1.0,"actor":"worker/0","clock":' + "9" * 400 + ',"samples":1,"bytes_sent":1}',
}


@pytest.mark.parametrize("line", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_number_that_no_run_can_have_written_is_damage(kept: Path, line: str) -> None:
    change(kept / EVENTS, lambda data: line.encode() + b"\n" + data)
    assert len(load(kept).remarks) == 1


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"{}", b"[" * 200_000, b'{"x":' + b"[" * 200_000, b'{"summary":' * 100_000, b"\0" * 100, b"\xff", b'"text"'],
    ids=len,
)
def test_a_run_json_that_is_damaged_is_refused_with_what_the_events_contain(kept: Path, damage: bytes) -> None:
    (kept / RUN).write_bytes(damage)
    with pytest.raises(CompositionError, match=r"cannot be read: run.json is damaged \(.*\)\. .* holds \d+ events until [\d.]+ s\.$"):
        load(kept)


def test_a_directory_of_run_directories_is_refused_with_the_first_of_them(kept: Path) -> None:
    with pytest.raises(CompositionError, match=r"is not a run directory: .* \(There is one in .*run\.\)$"):
        load(kept.parent)


def test_a_comparison_that_knows_the_numbers_needs_no_run_json(kept: Path) -> None:
    before = load(kept)
    (kept / RUN).write_bytes(b"{")
    after = load(kept, before.summary)
    assert (after.summary, after.events) == (before.summary, before.events)
    assert "run.json is damaged" in after.remarks[0]


@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: change(path, lambda data: data[:-3]), lambda path: path.write_bytes(b"")]
)
def test_weights_that_are_missing_or_damaged_are_reported_and_refuse_no_numbers(kept: Path, damage: Callable[[Path], None]) -> None:
    before = load(kept)
    damage(kept / WEIGHTS)
    after = load(kept)
    assert (after.summary, after.events) == (before.summary, before.events)
    assert len(after.remarks) == 1
    assert after.remarks[0].startswith(WEIGHTS)


def test_events_that_are_missing_are_reported_and_refuse_no_numbers(kept: Path) -> None:
    before = load(kept)
    (kept / EVENTS).unlink()
    after = load(kept)
    assert (after.summary, after.events, after.remarks) == (before.summary, [], ["events.jsonl is missing."])


def test_a_record_from_before_there_were_states_is_read(kept: Path) -> None:
    change(kept / RUN, lambda data: data.replace(b'"state": "ended",', b"").replace(b'"remarks": []', b'"other": []'))
    assert load(kept).state == "ended"


def drawn(run: Outcome) -> str:
    """Everything that is shown of a run."""
    Console(file=io.StringIO()).print(text([run]))
    return page([run], "title")


@SEVERAL
@given(place=st.floats(0, 1, exclude_max=True), name=st.sampled_from([EVENTS, RUN, WEIGHTS]))
def test_a_record_that_is_cut_anywhere_is_read_or_refused_and_loses_its_tail_alone(
    whole: Path, tmp_path: Path, place: float, name: str
) -> None:
    copy = shutil.copytree(whole, tmp_path / "cut", dirs_exist_ok=True)
    content = (whole / name).read_bytes()
    (copy / name).write_bytes(content[: int(place * len(content))])
    before = load(whole)
    try:
        after = load(copy)
    except CompositionError:
        assert name == RUN
        return
    assert after.summary == before.summary
    assert after.events == before.events[: len(after.events)]
    assert len(after.events) >= (copy / EVENTS).read_bytes().count(b"\n")


@FEW
@given(data=st.data(), name=st.sampled_from([EVENTS, EVENTS, RUN, WEIGHTS]), times=st.sampled_from([1, 2, 20]))
def test_a_record_whose_bytes_are_flipped_is_read_and_drawn_or_refused(
    whole: Path, tmp_path: Path, data: st.DataObject, name: str, times: int
) -> None:
    copy = shutil.copytree(whole, tmp_path / "flipped", dirs_exist_ok=True)
    content = bytearray((whole / name).read_bytes())
    for _ in range(times):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255) | st.sampled_from(b'0123456789.-eE"\n\\'))
    (copy / name).write_bytes(content)
    try:
        drawn(load(copy))
    except PolyrhythmError:
        assert name == RUN


@pytest.mark.parametrize("metrics", [{"": 1.0}, {"a\nb<c>[d]": -1e308, "loss": 1e308}, {"x" * 5000: 5e-324}, {"{}%s": 0.0}], ids=str)
def test_metrics_of_odd_names_and_sizes_are_kept_and_drawn(tmp_path: Path, metrics: dict[str, float]) -> None:
    run = outcome("ssp", workers=2, steps=5)
    more: list[AnyEvent] = [
        Reported(9.0 + step, "worker/0", 5 + step, metrics | {"y": -value} if step else metrics, 10)
        for step in range(2)
        for value in [1e308]
    ]
    run.events += more
    run.summary.final = metrics
    again = load(save(run, tmp_path))
    assert again.events[-2:] == more
    drawn(again)
