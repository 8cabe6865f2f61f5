"""`polyrhythm cluster simulate`: a table, JSON, and a page."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from polyrhythm.cluster.simulation import ClusterRun
from polyrhythm.cluster.simulation.results import JobRun
from polyrhythm.tools.cli.app import app
from polyrhythm.tools.report.cluster_page import COLUMNS, policies_sentence
from report.page_laws import empty_tables, fixed_colours

SITE = """
name = "home"
hosts = [{name = "laptop", count = 3, cores = 8}]
"""


def simulated(*words: str, width: int = 200) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["cluster", "simulate", *words])
    return result.exit_code, result.output


def test_policies_are_beside_each_other_in_a_table_and_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, text = simulated("tiresias", "--jobs", "12", "--hosts", "2x4", "--policies", "fifo,las", "--failures", "2 h", "--page", str(page))
    assert code == 0, text
    assert "mean completion" in text
    assert "Jobs complete after 6.83 min in the mean, the same under fifo and las." in text
    written = page.read_text()
    assert fixed_colours(written) == set()
    assert empty_tables(written) == []
    assert "Who was where: las" in written
    assert "Completion times" in written
    assert "http" not in written.partition("<script>")[0].replace("http-equiv", "")


def test_nothing_is_cut_at_eighty_columns() -> None:
    policies = "strict,fifo,binpack,spread,topology,frag,las,srtf"
    code, text = simulated("tiresias", "--jobs", "12", "--hosts", "2x4", "--policies", policies, width=80)
    assert code == 0, text
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "…" not in text
    heads = [line.split()[1:] for line in lines if line.startswith("policy ")]
    assert [name for head in heads for name in head] == policies.split(",")
    for name in COLUMNS:
        assert sum(line.startswith(f"{name} ") for line in lines) == len(heads)


def a_run(policy: str, *completions: float) -> ClusterRun:
    jobs = tuple(JobRun(f"job-{place}", 1.0, 0.0, 0.0, end) for place, end in enumerate(completions))
    return ClusterRun(policy, jobs, (), (), {}, 0, 0)


def test_policies_under_which_jobs_take_the_same_are_not_ranked() -> None:
    same = policies_sentence([a_run("fifo", 60.0, 120.0), a_run("las", 120.0, 60.0), a_run("frag", 90.0, 90.1)])
    assert same == "Jobs complete after 90 s in the mean, the same under fifo, las and frag."
    assert "las takes 1.50 times that" in policies_sentence([a_run("fifo", 60.0), a_run("las", 90.0)])


def test_a_policy_under_which_fewer_jobs_complete_is_not_the_soonest() -> None:
    said = policies_sentence([a_run("strict"), a_run("fifo", 60.0, 120.0)])
    assert said == "fifo completes 2 jobs in 90 s in the mean. Fewer jobs complete under strict (0 of 2)."


def test_the_same_line_gives_the_same_numbers_as_json() -> None:
    first, second = (simulated("pollux", "--jobs", "10", "--hosts", "2x4", "--policies", "fifo,srtf", "--json") for _ in range(2))
    assert first == second
    found = json.loads(first[1])
    assert [run["policy"] for run in found] == ["fifo", "srtf"]
    assert all(run["jobs"] == 10 for run in found)


def test_hosts_without_devices_come_from_a_site_file(tmp_path: Path) -> None:
    site, trace = tmp_path / "site.toml", tmp_path / "trace.csv"
    site.write_text(SITE)
    trace.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\na,6000,0,0,0,,0,50\nb,9000,0,0,0,,1,9\n"
    )
    code, text = simulated(str(trace), "--site", str(site), "--policies", "binpack")
    assert code == 0, text
    assert "b can never run here" in text


def test_a_cluster_on_which_no_job_can_run_has_no_times_and_fails() -> None:
    code, text = simulated("tiresias", "--jobs", "3", "--hosts", "1x0", "--policies", "fifo,las")
    assert code == 1
    assert "No job ever ran under fifo and las." in text
    assert "too few devices: each worker needs 8, and the largest host has 0" in text
    assert "0 µs" not in text
    code, text = simulated("tiresias", "--jobs", "3", "--hosts", "1x0", "--policies", "fifo", "--json")
    assert code == 1
    (run,) = json.loads(text)
    assert {run[name] for name in ("mean_completion", "median_completion", "completion_95", "mean_wait", "makespan")} == {None}


def test_wrong_words_are_sentences() -> None:
    for words, said in (
        (("nothing.csv",), "cannot be read"),
        (("tiresia",), "No trace or file is called 'tiresia'. Did you mean 'tiresias'?"),
        (("philly", "--page", "/dev/null/x.html"), "--page /dev/null cannot be written to"),
        (("philly", "--policies", "best"), "No policy is called 'best'"),
        (("philly", "--hosts", "many"), "such as 16x8"),
        (("philly", "--hosts", "2x4", "--site", "site.toml"), "--site site.toml has hosts, and so has --hosts 2x4"),
        (("philly", "--jobs", "0"), "--jobs 0 is out of range: give 1 or more."),
    ):
        code, text = simulated(*words)
        assert code == 2
        assert said in text
