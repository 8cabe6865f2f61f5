"""The manifests of Kubernetes; whole runs, and the schemas of real versions, are in engine_tests."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.kubectl import Kubectl
from polyrhythm.launchers.pods import _end
from polyrhythm.launchers.submission import WorkerCommand

JOB = WorkerCommand("digits", 3, ["-m", "first"], ["-m", "again", "--resume"])


def _objects(on: pr.launchers.Kubernetes) -> dict[str, Any]:
    return {each["kind"]: each for each in json.loads(on.submission(JOB).text)["items"]}


def _container(objects: dict[str, Any]) -> dict[str, Any]:
    (container,) = objects["Job"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_each_pod_receives_its_rank_and_where_pod_0_is() -> None:
    objects = _objects(pr.launchers.Kubernetes(image="trainer:1"))
    job = objects["Job"]["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 3, 3)
    name = objects["Service"]["metadata"]["name"]
    reason = {each["name"]: each.get("value") for each in _container(objects)["env"]}
    assert reason["WORLD_SIZE"] == "3"
    assert reason["MASTER_ADDR"] == f"{name}-0.{job['template']['spec']['subdomain']}" == f"{name}-0.{name}"
    assert objects["Service"]["spec"]["selector"] == {"batch.kubernetes.io/job-name": objects["Job"]["metadata"]["name"]}
    assert objects["Service"]["spec"]["publishNotReadyAddresses"] is True


def test_the_secret_is_random_and_only_in_its_object() -> None:
    first, second = (_objects(pr.launchers.Kubernetes(image="trainer:1")) for _ in range(2))
    secrets = [base64.b64decode(each["Secret"]["data"]["secret"]).decode() for each in (first, second)]
    assert len(set(secrets)) == 2
    assert all(len(secret) == 32 for secret in secrets)
    assert secrets[0] not in json.dumps(first["Job"])


def test_pods_continue_from_the_newest_checkpoint_and_are_replaced_as_often_as_requested() -> None:
    objects = _objects(pr.launchers.Kubernetes(image="trainer:1", restarts=2))
    assert _container(objects)["command"] == ["python", "-m", "again", "--resume"]
    assert objects["Job"]["spec"]["backoffLimit"] == 6
    assert objects["Job"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_resources_and_volumes_are_those_given() -> None:
    objects = _objects(pr.launchers.Kubernetes(image="trainer:1", cpus=0.5, memory="1Gi", gpus=2, claim="shared", mount="/work"))
    resources = _container(objects)["resources"]
    assert resources == {"requests": {"cpu": "0.5", "memory": "1Gi"}, "limits": {"memory": "1Gi", "nvidia.com/gpu": "2"}}
    assert {"name": "data", "mountPath": "/work"} in _container(objects)["volumeMounts"]
    volumes = objects["Job"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}} in volumes


def test_kubectl_receives_the_cluster_and_the_namespace() -> None:
    on = pr.launchers.Kubernetes(image="trainer:1", kubectl="/opt/kubectl", context="far", namespace="teams")
    assert on.submission(JOB).command == ["/opt/kubectl", "--context", "far", "--namespace", "teams", "apply", "-f", "-"]


def test_a_cluster_without_kubectl_is_refused() -> None:
    with pytest.raises(CompositionError, match="no command 'no-such-kubectl' here"):
        Kubectl("no-such-kubectl").apply([])


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"reason": "Evicted", "message": "The node was low on memory."}, "was lost (Evicted: The node was low on memory.)"),
        ({}, "was lost (Kubernetes does not say why)"),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
            "needed more memory than it may have (OOMKilled, exit code 137)",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}, "ended with exit code 1 (Error)"),
    ],
)
def test_the_end_of_a_pod_is_reported(status: dict[str, Any], reason: str) -> None:
    assert _end(status) == reason
