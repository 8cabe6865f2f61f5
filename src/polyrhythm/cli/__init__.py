"""The command line: `polyrhythm systems`, `run`, `join`, `launch`, `compare`, `check`, `reproduce`, `report`, `trace`, `networks`,
`devices`, `workloads`, `lab`, `calibrate`."""

from polyrhythm.cli.app import main

__all__ = ["main"]
