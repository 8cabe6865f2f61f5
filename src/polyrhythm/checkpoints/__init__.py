"""Checkpoints: directories in which every actor of a run has written its state at one step."""

from polyrhythm.checkpoints.checkpoint import Checkpoint
from polyrhythm.checkpoints.manifest import Manifest
from polyrhythm.checkpoints.store import CheckpointStore

__all__ = ["Checkpoint", "CheckpointStore", "Manifest"]
