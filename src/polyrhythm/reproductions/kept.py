"""Findings in a directory: a page, its picture, and the data behind them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from polyrhythm.atomic import write
from polyrhythm.reproductions import find
from polyrhythm.reproductions.findings import Findings
from polyrhythm.reproductions.page import page
from polyrhythm.reproductions.picture import picture


def keep(findings: Findings, directory: Path) -> Path:
    """Write NAME.md, NAME.svg and NAME.json, and return the page. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(claim.values for claim in findings.claims):
        write(directory / f"{findings.name}.svg", picture(findings, find(findings.name).claims).encode())
    write(directory / f"{findings.name}.json", msgspec.json.format(msgspec.json.encode(findings), indent=1))
    file = directory / f"{findings.name}.md"
    write(file, page(findings).encode())
    return file


def kept(directory: Path) -> list[Findings]:
    """All findings in a directory, by name. Raises msgspec.ValidationError for files of another kind."""
    return [msgspec.json.decode(file.read_bytes(), type=Findings) for file in sorted(directory.glob("*.json"))]
