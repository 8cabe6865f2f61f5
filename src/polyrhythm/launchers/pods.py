"""The pods of a run on Kubernetes: watched through kubectl in a separate thread, as each call takes a part of a second."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from polyrhythm.launchers.kubectl import Kubectl
from polyrhythm.launchers.manifest import INDEX, INSTANCE, LABEL, Manifest
from polyrhythm.launchers.protocol import Loss

_LOOK_SECONDS = 1.0


class PodTasks:
    """The tasks that the `objects`, a Secret and the Job `name`, have the cluster start."""

    def __init__(self, kubectl: Kubectl, name: str, workers: int, objects: Sequence[Manifest]) -> None:
        self._kubectl = kubectl
        self._name = name
        self._workers = workers
        self._objects = objects
        self._losses: deque[Loss] = deque()
        self._seen: set[str] = set()
        self._reported: set[int] = set()  # ranks of which a pod has failed since their last restart
        self._awaited: set[int] = set()  # whose loss the driver has noticed before the pod was seen to fail
        self._logs: dict[str, subprocess.Popen[bytes]] = {}
        self._failed = False
        self._over = threading.Event()
        self._looking = threading.Lock()
        self._watch = threading.Thread(target=self._look, name="polyrhythm pods", daemon=True)
        self._create()
        self._watch.start()

    def losses(self) -> list[Loss]:
        """Pods that have failed, and all if the Job has given up."""
        return [self._losses.popleft() for _ in range(len(self._losses))]

    def restart(self, ranks: list[int]) -> list[int]:
        """The Job replaces these pods by itself; one that has given up is created anew, with all pods."""
        with self._looking:
            if not self._failed:
                self._awaited |= set(ranks) - self._reported
                self._reported -= set(ranks)
                return ranks
            self._kubectl.delete(self._objects, wait=True)
            self._create()
            self._failed, self._reported, self._awaited = False, set(), set()
        return list(range(self._workers))

    def close(self, seconds: float) -> None:
        """Delete what was created, when the pods have printed their last, or after so many seconds."""
        self._over.set()
        self._watch.join()
        deadline = time.monotonic() + seconds
        for log in self._logs.values():
            with suppress(subprocess.TimeoutExpired):
                log.wait(max(0.0, deadline - time.monotonic()))
        self._kubectl.delete(self._objects)
        for log in self._logs.values():
            log.terminate()
            log.wait()

    def _create(self) -> None:
        try:
            self._kubectl.apply(self._objects)
        except BaseException:
            self._kubectl.delete(self._objects)  # of several objects some may have been taken
            raise

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with self._looking:
                for pod in self._kubectl.listed("pods", "--selector", f"{LABEL}={self._name}") or []:
                    self._regard(pod)
                if not self._failed:
                    self._regard_jobs(self._kubectl.listed("jobs", "--selector", f"{INSTANCE}={self._name}") or [])

    def _regard_jobs(self, jobs: Sequence[dict[str, Any]]) -> None:
        """Note that the Job has given up."""
        for condition in (each for job in jobs for each in job.get("status", {}).get("conditions", [])):
            if condition["type"] == "Failed" and condition["status"] == "True":
                self._failed = True
                self._losses.append(Loss(None, f"Kubernetes ended its Job {self._name}: {_said(condition)}"))

    def _regard(self, pod: dict[str, Any]) -> None:
        """Follow what it prints, and note its end."""
        name, phase = str(pod["metadata"]["name"]), pod.get("status", {}).get("phase")
        if phase in ("Running", "Succeeded", "Failed") and name not in self._logs:
            self._logs[name] = self._kubectl.follow(name)
        if phase == "Failed" and name not in self._seen:
            self._seen.add(name)
            rank = int(pod["metadata"]["annotations"][INDEX])
            if rank in self._awaited:
                self._awaited.remove(rank)
                return
            self._reported.add(rank)
            self._losses.append(Loss(rank, f"its pod {name} {_end(pod['status'])}"))


def _end(status: dict[str, Any]) -> str:
    """A sentence about the end of a failed pod: "was killed for its memory (OOMKilled, exit code 137)"."""
    ended = [each["state"]["terminated"] for each in status.get("containerStatuses", []) if "terminated" in each.get("state", {})]
    if not ended:
        return f"was lost ({_said(status) or 'Kubernetes does not say why'})"
    reason, code = str(ended[0].get("reason", "Error")), ended[0].get("exitCode")
    if reason == "OOMKilled":
        return f"needed more memory than it may have (OOMKilled, exit code {code})"
    return f"ended with exit code {code} ({reason})"


def _said(status: dict[str, Any]) -> str:
    return ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
