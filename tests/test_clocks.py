"""Time comes from the runtime: what is above it asks a port."""

from __future__ import annotations

import ast
from pathlib import Path

import polyrhythm

ROOT = Path(polyrhythm.__file__).parent
ABOVE = ("training", "report", "systems", "workloads", "strategy", "pieces", "hardware", "kernel")
ABOVE += ("consistency", "codec", "topology", "merge", "partition", "shuffle", "buffers")


def imported(path: Path) -> set[str]:
    """The names of the modules that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_nothing_above_the_runtimes_reads_a_clock() -> None:
    files = [path for layer in ABOVE for path in sorted((ROOT / layer).rglob("*.py"))]
    assert len(files) > 100
    assert [str(path.relative_to(ROOT)) for path in files if imported(path) & {"time", "datetime"}] == []
