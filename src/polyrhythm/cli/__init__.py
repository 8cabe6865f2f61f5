"""The command line: `polyrhythm systems`, `plan`, `run`, `join`, `launch`, `compare`, `check`, `reproduce`, `report`, `diagnose`,
`trace`, `networks`, `devices`, `workloads`, `lab`, `calibrate`."""

from polyrhythm.cli.app import main

__all__ = ["main"]
