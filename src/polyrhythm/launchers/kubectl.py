"""The command that talks to a Kubernetes cluster, with the configuration and the rights of the user."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from shutil import which
from typing import Any

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm.launchers.manifest import Manifest

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The program `path`, for `namespace` of the cluster of `context`; by default those of its configuration."""

    path: str = "kubectl"
    context: str | None = None
    namespace: str | None = None

    def command(self, *arguments: str) -> list[str]:
        """The command line of kubectl with `arguments`, for that context and namespace."""
        where = [("--context", self.context), ("--namespace", self.namespace)]
        return [self.path, *(part for flag, value in where if value is not None for part in (flag, value)), *arguments]

    def apply(self, objects: Sequence[Manifest]) -> None:
        """Create `objects`. Raises CompositionError where kubectl is not here or the cluster does not take them."""
        if which(self.path) is None:
            raise CompositionError(f"There is no command {self.path!r} here: install kubectl, or give its path with kubectl=.")
        done = self._run("apply", "-f", "-", given=objects)
        if done.returncode:
            raise CompositionError(f"The cluster did not take the job: {' '.join(done.stderr.decode(errors='replace').split())}")

    def delete(self, objects: Sequence[Manifest], wait: bool = False) -> None:
        """Delete `objects`, if they are there; and `wait` until they have gone."""
        with suppress(subprocess.TimeoutExpired):
            self._run("delete", "--ignore-not-found", f"--wait={str(wait).lower()}", "-f", "-", given=objects)

    def listed(self, *arguments: str) -> list[dict[str, Any]] | None:
        """The items of `kubectl get` with these `arguments`; None where the cluster does not answer."""
        try:
            done = self._run("get", *arguments, "-o", "json")
            return list(msgspec.json.decode(done.stdout)["items"]) if done.returncode == 0 else None
        except (subprocess.TimeoutExpired, msgspec.DecodeError, KeyError):
            return None

    def follow(self, pod: str) -> subprocess.Popen[bytes]:
        """Have what `pod` prints come here, with its name before each line."""
        return subprocess.Popen(self.command("logs", "--follow", "--prefix", pod), stdin=subprocess.DEVNULL, start_new_session=True)

    def _run(self, *arguments: str, given: Sequence[Manifest] = ()) -> subprocess.CompletedProcess[bytes]:
        manifest = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(given)}) if given else b""
        return subprocess.run(self.command(*arguments), input=manifest, capture_output=True, check=False, timeout=_SECONDS)
