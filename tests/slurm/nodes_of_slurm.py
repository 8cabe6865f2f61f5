"""The nodes of the SLURM that tests have, and what it was told."""

from __future__ import annotations

import json
from pathlib import Path

NODES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


class FakeSlurm:
    """The folder of its state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.say(dict.fromkeys(NODES, "idle"))

    def say(self, states: dict[str, str]) -> None:
        """Nodes have these states from now on."""
        known = json.loads((self.folder / "nodes.json").read_text()) if (self.folder / "nodes.json").exists() else {}
        (self.folder / "nodes.new").write_text(json.dumps({**known, **states}))
        (self.folder / "nodes.new").rename(self.folder / "nodes.json")

    def scripts(self) -> list[str]:
        """All that sbatch has taken, in order."""
        folders = sorted((self.folder / "jobs").glob("*"), key=lambda each: int(each.name))
        return [(each / "script").read_text() for each in folders]
