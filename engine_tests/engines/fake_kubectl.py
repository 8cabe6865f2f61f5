"""A cluster in a folder, as kubectl shows it: pods of Indexed Jobs are processes, with the environment that the manifest says.

    fake_kubectl.py FOLDER [kubectl's arguments]

Services are one free port of loopback for each Job. A pod that is killed counts as killed for its memory.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PAUSE = 0.05
INDEX = "batch.kubernetes.io/job-completion-index"


class Cluster:
    """What is in `folder`: an object for each file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, kind: str, name: str) -> Path:
        """Where an object is."""
        return self.folder / f"{kind}-{name}.json"

    def read(self, path: Path) -> dict[str, Any]:
        """An object."""
        return json.loads(path.read_text())

    def write(self, kind: str, name: str, content: dict[str, Any]) -> None:
        """Keep an object; readers see the old one or the new one."""
        path = self.path(kind, name)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(content))
        fresh.replace(path)

    def apply(self) -> None:
        """Create what stands on stdin, and a controller for each Job."""
        for each in json.load(sys.stdin)["items"]:
            kind, name = each["kind"].lower(), each["metadata"]["name"]
            if kind == "job" and each["spec"]["template"]["spec"]["containers"][0]["image"] == "refused":
                sys.exit("Error from server (Forbidden): the image is not allowed here")
            self.write(kind, name, each)
            print(f"{kind}/{name} created")
            if kind == "job":
                command = [sys.executable, __file__, str(self.folder), "control", name]
                log = self.path("controller", name).with_suffix(".log").open("wb")
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def delete(self, wait: bool) -> None:
        """Remove what stands on stdin."""
        for each in json.load(sys.stdin)["items"]:
            kind, name = each["kind"].lower(), each["metadata"]["name"]
            self.path(kind, name).unlink(missing_ok=True)
            while wait and kind == "job" and self.path("controller", name).exists():
                time.sleep(PAUSE)

    def get(self, kind: str, selector: str) -> None:
        """Print those with a label."""
        key, _, value = selector.partition("=")
        found = [self.read(path) for path in sorted(self.folder.glob(f"{kind}-*.json"))]
        print(json.dumps({"items": [each for each in found if each["metadata"].get("labels", {}).get(key) == value]}))

    def logs(self, pod: str) -> None:
        """Print a pod's lines as they come, until it has ended."""
        with self.path("pod", pod).with_suffix(".log").open() as log:
            ended = False
            while True:
                line = log.readline()
                if line:
                    print(f"[pod/{pod}/worker] {line}", end="", flush=True)
                elif ended:
                    return
                else:
                    path = self.path("pod", pod)
                    ended = not path.exists() or self.read(path)["status"]["phase"] != "Running"
                    time.sleep(PAUSE)

    def control(self, name: str) -> None:
        """Be the controller of a Job: start its pods, and replace those that fail."""
        self.write("controller", name, {})
        job = self.read(self.path("job", name))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        spec, failures, begun = job["spec"], 0, 0
        assert spec["completionMode"] == "Indexed"
        running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        missing = list(range(spec["completions"]))
        while (running or missing) and self.path("job", name).exists():
            for index in missing:
                pod, begun = f"{name}-{index}-{begun:05}", begun + 1
                running[index] = (pod, self.start(job, pod, index, port))
            missing = []
            for index, (pod, process) in list(running.items()):
                code = process.poll()
                if code is None:
                    continue
                del running[index]
                self.end(job, pod, index, code)
                if code:
                    failures, missing = failures + 1, [*missing, index]
                if code == 2 or failures > spec["backoffLimit"]:
                    reason = "PodFailurePolicy" if code == 2 else "BackoffLimitExceeded"
                    job["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": reason, "message": "it has failed"}]}
                    self.write("job", name, job)
                    missing = []
                    self.kill(running)
                    self.path("controller", name).unlink()
                    return
            time.sleep(PAUSE)
        self.kill(running)
        self.path("controller", name).unlink()

    def kill(self, running: dict[int, tuple[str, subprocess.Popen[bytes]]]) -> None:
        """End all pods."""
        for _, process in running.values():
            process.kill()
            process.wait()

    def start(self, job: dict[str, Any], pod: str, index: int, port: int) -> subprocess.Popen[bytes]:
        """Begin a pod."""
        name, template = job["metadata"]["name"], job["spec"]["template"]["spec"]
        (container,) = template["containers"]
        fields = {f"metadata.annotations['{INDEX}']": str(index), "metadata.name": pod, "status.podIP": "127.0.0.1"}
        environment = {key: os.environ[key] for key in ("PATH", "HOME", "PYTHONPATH") if key in os.environ}
        for each in container["env"]:
            environment[each["name"]] = self.value(each, fields)
        service = self.path("service", name)
        if service.exists() and environment.get("MASTER_ADDR") == f"{name}-0.{template['subdomain']}":
            assert str(self.read(service)["spec"]["ports"][0]["port"]) == environment["MASTER_PORT"]
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        log = self.path("pod", pod).with_suffix(".log").open("wb")
        process = subprocess.Popen(container["command"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.write("pod", pod, self.shown(job, index, pod, {"phase": "Running"}))
        return process

    def value(self, variable: dict[str, Any], fields: dict[str, str]) -> str:
        """The value of an environment variable."""
        if "value" in variable:
            return str(variable["value"])
        source = variable["valueFrom"]
        if "fieldRef" in source:
            return fields[source["fieldRef"]["fieldPath"]]
        kept = self.read(self.path("secret", source["secretKeyRef"]["name"]))
        return base64.b64decode(kept["data"][source["secretKeyRef"]["key"]]).decode()

    def end(self, job: dict[str, Any], pod: str, index: int, code: int) -> None:
        """Note how a pod has ended."""
        code = 128 - code if code < 0 else code
        reason = {0: "Completed", 137: "OOMKilled"}.get(code, "Error")
        containers = [{"name": "worker", "state": {"terminated": {"exitCode": code, "reason": reason}}}]
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}
        self.write("pod", pod, self.shown(job, index, pod, status))

    def shown(self, job: dict[str, Any], index: int, pod: str, status: dict[str, Any]) -> dict[str, Any]:
        """A pod."""
        name = job["metadata"]["name"]
        labels = {**job["spec"]["template"]["metadata"]["labels"], "batch.kubernetes.io/job-name": name}
        return {"metadata": {"name": pod, "labels": labels, "annotations": {INDEX: str(index)}}, "status": status}


def main(folder: str, *arguments: str) -> None:
    """One call of kubectl."""
    cluster = Cluster(Path(folder))
    match [each for each in arguments if each not in ("-f", "-", "--ignore-not-found")]:
        case ["apply"]:
            cluster.apply()
        case ["delete", wait]:
            cluster.delete(wait == "--wait=true")
        case ["get", kind, "--selector", selector, "-o", "json"]:
            cluster.get(kind.removesuffix("s"), selector)
        case ["logs", "--follow", "--prefix", pod]:
            cluster.logs(pod)
        case ["control", name]:
            cluster.control(name)
        case other:
            sys.exit(f"error: unknown command {other}")


if __name__ == "__main__":
    main(*sys.argv[1:])
