"""Pages from templates: one HTML file each that needs nothing else, no network, and for reading it no script."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from polyrhythm.core import atomic
from polyrhythm.core.records.outcome import versions
from polyrhythm.tools.report import panels
from polyrhythm.tools.report.filled import filled
from polyrhythm.tools.report.series import DARK, LIGHT


def rendered(template: str, **values: Any) -> str:
    """The page of that template, with its style, its scripts and the versions of what wrote it."""
    scripts = [panels.program(), _file("script.js")]
    return (
        _templates()
        .get_template(template)
        .render(
            versions=versions(),
            style=_file("style.css"),
            light=LIGHT,
            dark=DARK,
            scripts=scripts,
            hashes=[b64encode(sha256(script.encode()).digest()).decode() for script in scripts],
            **values,
        )
    )


def written(path: str | Path, page: str) -> Path:
    """Write a page. Raises OSError; one that was there is then as it was."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(file, page.encode("utf-8", "backslashreplace"))
    return file


@cache
def _templates() -> Environment:
    loader = PackageLoader("polyrhythm.tools.report")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    made.filters["filled"] = filled
    made.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False}
    return made


def _file(name: str) -> str:
    return (files("polyrhythm.tools.report") / "templates" / name).read_text(encoding="utf-8")
