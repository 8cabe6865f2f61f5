"""What holds for every page, whatever it shows."""

from __future__ import annotations

import re

_PICTURE = re.compile(r'<div class="still">(.*?)</div>', re.DOTALL)
_COLOUR = re.compile(r'\b(?:fill|stroke)(?:="|:\s*)([^";]+)')
_FOLLOWS = re.compile(r"var\(--\w+\)|none|transparent")
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)
_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)


def fixed_colours(page: str) -> set[str]:
    """The colours in pictures that do not follow when light becomes dark: what has such a one cannot be read in one of the two."""
    pictures = _PICTURE.findall(page)
    assert pictures, "the page has no picture"
    return {colour for picture in pictures for colour in _COLOUR.findall(picture) if not _FOLLOWS.fullmatch(colour)}


def empty_tables(page: str) -> list[str]:
    """The tables that have no row below their headings."""
    return [table for table in _TABLE.findall(_SCRIPT.sub("", page)) if table.count("<tr") < 2]
