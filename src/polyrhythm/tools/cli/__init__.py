"""The command line: `polyrhythm systems`, `plan`, `layouts`, `cost`, `run`, `join`, `launch`, `compare`, `study`, `scaling`, `check`,
`report`, `diagnose`, `trace`, `export`, `networks`, `devices`, `workloads`, `lab`, `simulate`, `calibrate`, `cluster`."""

from polyrhythm.tools.cli.app import main

__all__ = ["main"]
