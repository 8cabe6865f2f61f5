"""Checkpoints: directories in which every actor of a run has written its state at one step."""

from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.checkpoints.manifest import Manifest
from polyrhythm.core.checkpoints.store import CheckpointStore

__all__ = ["Checkpoint", "CheckpointStore", "Manifest"]
