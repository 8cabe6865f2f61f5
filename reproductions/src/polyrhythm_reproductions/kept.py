"""Findings in a directory: a page, its picture, and the data behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.atomic import write
from polyrhythm_reproductions.arm import ArmPoint
from polyrhythm_reproductions.findings import ReproductionReport
from polyrhythm_reproductions.page import page
from polyrhythm_reproductions.picture import picture
from polyrhythm_reproductions.registry import find

_POINTS = 32
"""Points of a curve that are kept."""
_SELDOM = ("changed", "beside", "beside_values")
"""What few claims have is left out where it is empty."""


def keep(findings: ReproductionReport, directory: Path) -> Path:
    """Write NAME.md, NAME.svg and NAME.json, and return the page. Raises OSError.

    Of curves as many points are kept as a picture shows, each with five digits.
    """
    findings = thinned(findings)
    directory.mkdir(parents=True, exist_ok=True)
    if any(claim.values for claim in findings.claims):
        write(directory / f"{findings.name}.svg", picture(findings, find(findings.name).claims).encode())
    data = msgspec.to_builtins(findings)
    data["claims"] = [{key: value for key, value in claim.items() if value or key not in _SELDOM} for claim in data["claims"]]
    arms = [msgspec.json.encode(_spelled(arm)).decode() for arm in data.pop("arms")]
    head = msgspec.json.format(msgspec.json.encode(_spelled(data)), indent=1).decode().rstrip().removesuffix("}").rstrip()
    text = f'{head},\n "arms": [\n  ' + ",\n  ".join(arms) + "\n ]\n}\n"  # an arm is a line
    write(directory / f"{findings.name}.json", text.encode())
    file = directory / f"{findings.name}.md"
    write(file, page(findings).encode())
    return file


def thinned(findings: ReproductionReport) -> ReproductionReport:
    """The findings with as many points of each curve as are kept."""
    return msgspec.structs.replace(findings, arms=[msgspec.structs.replace(arm, curve=_thinned(arm.curve)) for arm in findings.arms])


def _thinned(curve: Sequence[ArmPoint]) -> list[ArmPoint]:
    """At most `_POINTS` of the points, evenly spread, the first and the last among them."""
    count = len(curve)
    places = range(count) if count <= _POINTS else sorted({round(k * (count - 1) / (_POINTS - 1)) for k in range(_POINTS)})
    return [ArmPoint(curve[k].step, _digits(curve[k].seconds), _digits(curve[k].value)) for k in places]


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def kept(directory: Path) -> list[ReproductionReport]:
    """All findings in a directory, by name. Raises msgspec.ValidationError for files of another kind."""
    return [read(file) for file in sorted(directory.glob("*.json"))]


def read(file: Path) -> ReproductionReport:
    """Findings from their data. Raises msgspec.ValidationError for a file of another kind."""
    return msgspec.json.decode(file.read_bytes(), type=ReproductionReport, strict=False)  # where a string may stand for a number


def _spelled(data: Any) -> Any:
    """`data` with "inf", "-inf" and "nan" for the numbers that JSON does not have."""
    if isinstance(data, dict):
        return {key: _spelled(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_spelled(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data
