"""A scheduler as a separate process: `run_scheduler.py KUBECONFIG NAMESPACE GATE [PATCHES]`. After so many patches of pods it is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from polyrhythm.cluster import FirstIn, SchedulerConfig
from polyrhythm.tools.scheduling.kubernetes.api import ApiAnswer, ClusterApi
from polyrhythm.tools.scheduling.kubernetes.gates import SchedulingGate, TaintGate
from polyrhythm.tools.scheduling.kubernetes.scheduler import KubernetesScheduler
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings


class Deadly:
    """An API that kills this process with SIGKILL when so many patches of pods are carried out."""

    def __init__(self, api: ClusterApi, patches: int) -> None:
        self._api = api
        self._left = patches

    def ask(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> ApiAnswer:
        """As the API."""
        answer = self._api.ask(method, path, body, query)
        if method == "PATCH" and "/pods/" in path and answer.taken:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def follow(self, path: str, query: Mapping[str, str], seconds: float) -> Iterator[Any]:
        """As the API."""
        return self._api.follow(path, query, seconds)


if __name__ == "__main__":
    os.environ["KUBECONFIG"] = sys.argv[1]
    gate = {"TaintGate": TaintGate(), "SchedulingGate": SchedulingGate()}[sys.argv[3]]
    api = Deadly(ClusterApi.found(), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    settings = ClusterSettings(sys.argv[2], gate)
    KubernetesScheduler(api, settings, SchedulerConfig(FirstIn()), "tests").run(lambda: False, lambda done: None)
