"""The two control planes that tests run on."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rig import RealControlPlane
from stub_server import StubControlPlane

from polyrhythm.tools.scheduling.kubernetes.api import Api


class ControlPlane(Protocol):
    """An API server with a scheduler that binds pods."""

    @property
    def kind(self) -> str:
        """ "stub" or "real"."""

    @property
    def kubeconfig(self) -> Path:
        """The file with its address and credentials."""

    def start(self) -> None:
        """Start, and wait until requests are answered."""

    def api(self) -> Api:
        """A client with connections of its own."""

    def compact(self) -> None:
        """Forget all versions but the newest, so that watches of older ones have a gap."""

    def close(self) -> None:
        """End."""


def control_plane(kind: str, folder: Path) -> ControlPlane:
    """The plane of that kind."""
    return {"stub": StubControlPlane, "real": RealControlPlane}[kind](folder)
