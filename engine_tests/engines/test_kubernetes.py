"""Kubernetes: its manifests against the schemas of two versions, and runs in a cluster that kubectl imitates. No real cluster is here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import laws
import pytest

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.protocol import TaskOrder

VERSIONS = ("1.33", "1.37")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a cluster, with its kubectl."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f'#!/bin/bash\nexec {sys.executable} {Path(__file__).with_name("fake_kubectl.py")} {folder} "$@"\n')
    program.chmod(0o755)
    yield folder
    for job in folder.glob("job-*.json"):
        job.unlink()
    while list(folder.glob("controller-*.json")):
        time.sleep(0.05)


def _on(cluster: Path, **options: Any) -> pr.launchers.Kubernetes:
    return pr.launchers.Kubernetes(
        image="trainer:1", kubectl=str(cluster / "kubectl"), python=sys.executable, driver="127.0.0.1", **options
    )


def _launched(*arguments: str) -> str:
    command = [sys.executable, "-m", "polyrhythm", "launch", *arguments, "--on", "kubernetes", "--engine", "image=trainer:1", "--print"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("more", [(), ("--engine", "gpus=2", "--engine", "claim=data", "--engine", "cpus=0.5")])
def test_a_manifest_has_no_field_that_a_cluster_does_not_know(version: str, more: tuple[str, ...]) -> None:
    objects = json.loads(_launched("digits-mlp", "--workers", "3", "--checkpoint", "/data/c", "--every", "5", *more))["items"]
    assert [each["kind"] for each in objects] == ["Secret", "Service", "Job"]
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_objects_of_a_driver_have_none_either(version: str, cluster: Path) -> None:
    tasks = _on(cluster).start(TaskOrder("127.0.0.1", 1, "00", 2))
    objects = [json.loads(path.read_text()) for kind in ("secret", "job") for path in cluster.glob(f"{kind}-*.json")]
    tasks.close(0.0)
    assert len(objects) == 2
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)


def test_pods_have_the_bits_of_processes_and_their_lines_come_here(cluster: Path, capfd: pytest.CaptureFixture[str]) -> None:
    laws.has_the_bits_of_processes(_on(cluster))
    printed = capfd.readouterr().out
    assert "/worker] worker 1 printed this" in printed
    assert not list(cluster.glob("job-*.json")) + list(cluster.glob("secret-*.json"))


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_systems_whose_workers_do_not_keep_time_run(cluster: Path, tmp_path: Path, strategy: str) -> None:
    laws.runs(_on(cluster), strategy, tmp_path / "run")


def test_a_lost_pod_is_replaced_and_the_run_goes_on(cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    laws.continues_after_a_loss(_on(cluster), tmp_path, capfd)
    events = (tmp_path / "record" / "events.jsonl").read_text()
    assert "needed more memory than it may have (OOMKilled, exit code 137)" in events


def test_a_crew_replaces_a_lost_worker(cluster: Path, tmp_path: Path) -> None:
    laws.a_crew_replaces_a_lost_worker(_on(cluster), tmp_path)


def test_the_users_error_is_named(cluster: Path, tmp_path: Path) -> None:
    laws.names_the_users_error(_on(cluster), tmp_path)


def test_a_job_that_the_cluster_does_not_take_is_refused_and_nothing_is_left(cluster: Path) -> None:
    on = pr.launchers.Kubernetes(image="refused", kubectl=str(cluster / "kubectl"), driver="127.0.0.1")
    with pytest.raises(CompositionError, match="the image is not allowed here"):
        pr.run(laws.training(), on=on)
    assert not list(cluster.glob("secret-*.json"))


def test_a_launched_job_ends_with_its_record(cluster: Path, tmp_path: Path) -> None:
    kubectl, out = str(cluster / "kubectl"), tmp_path / "run"
    options = ["--engine", f"kubectl={kubectl}", "--engine", "image=trainer:1", "--engine", f"python={sys.executable}"]
    command = [sys.executable, "-m", "polyrhythm", "launch", "digits-mlp", "--on", "kubernetes", "--set", "epochs=2", "--out", str(out)]
    assert subprocess.run([*command, *options], check=False).returncode == 0
    deadline = time.monotonic() + 120
    while list(cluster.glob("controller-*.json")) or not list(cluster.glob("pod-*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    logs = [path.read_text() for path in sorted(cluster.glob("pod-*.log"))]
    assert json.loads((out / "worker-0" / "run.json").read_bytes())["state"] == "ended", logs
    assert "allreduce ended with accuracy" in logs[0]
