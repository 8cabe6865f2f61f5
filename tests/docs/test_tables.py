"""What pages state of the catalogue is what the catalogue has."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_tables_of_systems_and_pieces_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    stale = [page.name for page, text in runpy.run_path(str(DOCS / "generate_tables.py"))["pages"]() if page.read_text("utf-8") != text]
    assert not stale, f"{', '.join(stale)}: run make docs-tables"
