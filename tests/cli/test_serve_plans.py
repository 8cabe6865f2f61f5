"""`serve plan` and `serve simulate`: tables, files for other servers, a page, and sentences for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.serving import LatencyProfile
from polyrhythm.serving.serving_files import write_profiles
from report.page_laws import empty_tables, fixed_colours

MODELS = """
[[models]]
name = "digits"
emulated = true
input = [16]
[[sessions]]
name = "pages"
model = "digits"
slo = "100 ms"
rate = 100
[[sessions]]
name = "archive"
model = "digits"
slo = "SLO"
rate = 20
"""
SITE = """
[[machines]]
name = "desk"
kind = "laptop"
memory = "4 GB"
count = 2
[control]
epoch = "30 s"
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """MODELS, a SITE of two machines, and profiles; as arguments."""
    (tmp_path / "models.toml").write_text(MODELS.replace("SLO", "1 s"))
    (tmp_path / "site.toml").write_text(SITE)
    write_profiles(
        tmp_path / "profiles.json",
        [LatencyProfile.measured("digits", "laptop", {1: 0.004, 32: 0.05}, {1: 10**8, 32: 2 * 10**8}, (0, 0, 2.0))],
    )
    return (str(tmp_path / "models.toml"), "--machines", str(tmp_path / "site.toml"))


def test_a_plan_is_a_table_with_what_breaks_first(polyrhythm: Any, files: tuple[str, ...]) -> None:
    result = polyrhythm("serve", "plan", *files)
    assert result.code == 0
    assert "desk-1" in result.out
    assert "breaks first: beyond" in result.out


def test_growth_that_is_not_looked_for_is_called_so(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(MODELS.replace("SLO", "1 s").replace("rate = 100", "rate = 1").replace("rate = 20", "rate = 1"))
    result = polyrhythm("serve", "plan", *files)
    assert "×64 or more" in result.out
    assert "breaks first: beyond" not in result.out
    assert "Each session can grow to 64 times its planned rate, or more" in result.out


def test_a_kind_without_a_profile_is_told_with_those_that_have_one(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE.replace('"laptop"', '"laptp"'))
    assert "no profile on any kind of machine (laptp), only on laptop: measure one" in polyrhythm("serve", "plan", *files).out


def test_a_plan_is_written_and_another_begins_with_it(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    assert f"the plan is in {kept}" in polyrhythm("serve", "plan", *files, "--out", str(kept)).err
    again = polyrhythm("serve", "plan", *files, "--previous", str(kept))
    assert "To do: nothing." in again.out
    given = json.loads(polyrhythm("serve", "plan", *files, "--json").out)
    assert given["plan"] == json.loads(kept.read_text())


def test_a_session_that_cannot_be_served_is_named_with_what_could(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(MODELS.replace("SLO", "5 ms"))
    result = polyrhythm("serve", "plan", *files)
    assert result.code == 1
    reason = "archive: No machine answers digits within 5 ms; the smallest objective is 12 ms."
    assert result.out.splitlines()[0] == reason
    assert result.out.index(reason) < result.out.index("desk-1")


def test_where_nothing_fits_there_is_the_reason_and_no_table(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(MODELS.replace("SLO", "5 ms").replace("100 ms", "5 ms"))
    result = polyrhythm("serve", "plan", *files)
    assert result.code == 1
    assert [line.split(":")[0] for line in result.out.splitlines()] == ["pages", "archive"]
    empty = polyrhythm("serve", "plan", *files, "--export", "triton", "--to", str(tmp_path / "t"))
    assert "nothing was written" in empty.err


def test_what_a_plan_has_no_room_for_is_told_beside_a_simulation_that_answers_it(
    polyrhythm: Any, files: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "site.toml").write_text(SITE.replace("count = 2", "count = 1"))
    (tmp_path / "models.toml").write_text(MODELS.replace("SLO", "1 s").replace("rate = 100", "rate = 380"))
    planned = polyrhythm("serve", "plan", *files)
    assert planned.code == 1
    assert "The machines have room for " in planned.out
    assert "with what is kept free for a headroom of 10% and bursts of 1.5 standard deviations" in planned.out
    played = polyrhythm("serve", "simulate", *files, "--seconds", "5")
    assert planned.out.splitlines()[0] in played.out
    assert "was good all the same" in played.out


def test_a_plan_becomes_the_configuration_of_triton(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    result = polyrhythm("serve", "plan", *files, "--export", "triton", "--to", str(tmp_path / "t"))
    assert result.code == 0
    text = (tmp_path / "t" / "desk-1" / "digits" / "config.pbtxt").read_text()
    for field in (
        *('name: "digits"', "max_batch_size: ", "dynamic_batching {", "preferred_batch_size: [ ", "max_queue_delay_microseconds: "),
        *("default_queue_policy {", "timeout_action: REJECT", "default_timeout_microseconds: ", "instance_group [", "kind: KIND_AUTO"),
    ):
        assert field in text
    assert text.count("{") == text.count("}")
    assert "desk-1/digits/config.pbtxt" in result.err
    assert "tritonserver --model-repository=" in result.err


def test_an_emulated_model_is_not_to_be_copied(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    """It has no file; a model of a file beside it is to be copied as ever."""
    for server in ("triton", "bentoml"):
        said = polyrhythm("serve", "plan", *files, "--export", server, "--to", str(tmp_path / server)).err
        assert "put what digits stands for " in said
        assert "(it is emulated, without a file)" in said
        assert "copy each model" not in said
    (tmp_path / "models.toml").write_text(MODELS.replace("SLO", "1 s").replace("emulated = true", 'torch = "models.py:digits"'))
    said = polyrhythm("serve", "plan", *files, "--export", "triton", "--to", str(tmp_path / "again")).err
    assert "copy each model beside its config.pbtxt as 1/model.onnx" in said
    assert "is emulated" not in said


def test_a_plan_becomes_the_configuration_of_bentoml(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    result = polyrhythm("serve", "plan", *files, "--export", "bentoml", "--to", str(tmp_path / "b"))
    assert result.code == 0
    assert "desk-1/batching.py" in result.err
    assert "bentoml serve" in result.err
    names: dict[str, Any] = {}
    exec((tmp_path / "b" / "desk-1" / "batching.py").read_text(), names)
    assert set(names["API"]["digits"]) == {"batchable", "max_batch_size", "max_latency_ms"}
    assert names["SERVICE"]["digits"]["traffic"]["timeout"] <= 1.0


def test_a_site_that_answers_nothing_in_time_fails(polyrhythm: Any, files: tuple[str, ...]) -> None:
    Path(files[0]).write_text(MODELS.replace("SLO", "1 ms").replace("100 ms", "1 ms"))
    for more in ((), ("--json",)):
        assert polyrhythm("serve", "simulate", *files, "--seconds", "5", *more).code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "--export", "tritn", "--to", "x"), "tritn"),
        (("plan", "--export", "triton"), "give --to DIR"),
        (("plan", "--to", "x"), "is the directory of --export"),
        (("plan", "--out", "/dev/null/x"), "--out /dev/null cannot be written to"),
        (("plan", "--out", "/tmp"), "--out /tmp is a folder: give a file"),
        (("simulate", "--report", "/dev/null/x"), "--report /dev/null cannot be written to"),
        (("simulate", "--lose", "desk-3@3"), "Did you mean 'desk-1' or 'desk-2'?"),
        (("plan", "--export", "triton", "--to", "/dev/null/x"), "--to /dev/null/x cannot be written to"),
        (("simulate", "--arrivals", "weekly"), "weekly"),
        (("simulate", "--lose", "desk-1"), "has no moment"),
        (("simulate", "--lose", "cellar@3"), "No machine of the site is called 'cellar'. There are: desk-1, desk-2."),
        (("simulate", "--step", "pages=x@3"), "is no number"),
        (("simulate", "--step", "pages=2@3", "--arrivals", "even"), "is for Poisson's arrivals"),
        (("simulate", "--seconds", "0"), "--seconds: 0 is no number above zero"),
    ],
)
def test_what_cannot_be_is_a_sentence(polyrhythm: Any, files: tuple[str, ...], words: tuple[str, ...], message: str) -> None:
    result = polyrhythm("serve", words[0], *files, *words[1:])
    assert result.code == 2
    assert message in result.err


def test_a_simulated_load_is_told_by_session_and_drawn_on_a_page(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    options = ("--seconds", "15", "--step", "pages=2@3", "--lose", "desk-1@8", "--report", str(page))
    result = polyrhythm("serve", "simulate", *files, *options)
    assert result.code == 0
    assert "machine lost" in result.out
    text = page.read_text()
    assert "<svg" in text
    assert "breaks first" in text
    assert "http" not in text.split("<script>")[0].replace("http-equiv", "")
    assert fixed_colours(text) == set()
    assert result.err.endswith(f"polyrhythm: the page is in {page}\n")


def test_a_site_that_has_lost_its_machines_says_so(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    lost = ("--lose", "desk-1@3", "--lose", "desk-2@3")
    assert polyrhythm("serve", "simulate", *files, "--seconds", "15", *lost, "--report", str(page)).code == 0
    text = page.read_text()
    assert "pages: No machine is left: all are lost." in text
    assert "no profile" not in text
    assert "No machine serves anything." in text
    assert empty_tables(text) == []


def test_a_site_whose_machines_with_a_profile_are_lost_is_not_told_to_measure_alone(
    polyrhythm: Any, files: tuple[str, ...], tmp_path: Path
) -> None:
    site = SITE.replace("count = 2", "count = 1") + '\n[[machines]]\nname = "attic"\nkind = "server"\nmemory = "4 GB"\n'
    (tmp_path / "site.toml").write_text(site)
    page = tmp_path / "page.html"
    polyrhythm("serve", "simulate", *files, "--seconds", "15", "--lose", "desk@3", "--report", str(page))
    assert (
        "no profile on any kind of machine that is left (server), only on laptop: bring one back, or measure it there" in page.read_text()
    )


def test_a_recorded_trace_is_played_and_printed_as_json(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("seconds,session\n" + "".join(f"{index / 50},pages\n" for index in range(100)))
    given = json.loads(polyrhythm("serve", "simulate", *files, "--arrivals", str(trace), "--seconds", "3", "--fixed", "--json").out)
    assert given["sessions"]["pages"]["good"] == 100
    assert given["plans"][0]["reason"] == "first"


def test_the_time_of_a_query_is_divided_and_a_server_refuses_it(polyrhythm: Any, files: tuple[str, ...], tmp_path: Path) -> None:
    query = """
[[queries]]
name = "street"
slo = "200 ms"
rate = 5
nodes = [{name = "detect", model = "digits"}, {name = "read", model = "MODEL", after = ["detect"], fan_out = 2}]
"""
    given = MODELS.replace("SLO", "1 s") + query
    (tmp_path / "models.toml").write_text(given.replace("MODEL", "digits"))
    planned = json.loads(polyrhythm("serve", "plan", *files, "--json").out)["plan"]
    rates = {slot["session"]: slot["rate"] for each in planned["machines"] for slot in each["slots"]}
    assert rates["street/read"] == pytest.approx(2 * rates["street/detect"])
    played = json.loads(polyrhythm("serve", "simulate", *files, "--seconds", "3", "--json").out)
    assert played["sessions"]["street/read"]["good_rate"] == 1
    assert "as serve plan lists them" in polyrhythm("serve", "run", *files).err
    (tmp_path / "models.toml").write_text(given.replace("MODEL", "letters"))
    assert "'street/read'" in polyrhythm("serve", "plan", *files).err
