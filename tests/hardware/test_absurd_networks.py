"""Network files with values that cannot be: refused with what was given, why, and what to do."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyrhythm.core import units
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.network import load
from polyrhythm.tools.cli.app import app

SITES = [{"name": "a", "egress": "1 Gbit/s"}, {"name": "b", "egress": "1 Gbit/s"}]
LINK = {"from": "a", "to": "b", "latency": "1 ms"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hosts": [{"host": -1, "egress": 1e6}]}, "for host -1, which is no number of a host: they count from 0"),
        ({"hosts": [{"host": 1, "egress": 1e6}] * 2}, "for host 1, which is listed twice: give it once"),
        ({"links": [LINK, LINK]}, "the link from 'a' to 'b' twice: give each direction once"),
        ({"links": [LINK, {**LINK, "to": "a"}]}, "the link from 'a' to 'a' from a site to itself: give the site's own latency"),
        ({"links": [{**LINK, "bandwidth": "1e-300 Mbit/s"}]}, "or is less than one byte per second. Give one byte per second or more"),
        ({"sites": [{"name": "a", "egress": "1e-300 Mbit/s"}], "links": []}, "Give one byte per second or more"),
        ({"sites": [{"name": "a", "egress": 0}], "links": []}, "is not a finite number above zero"),
        ({"sites": [{"name": "a", "egress": "1.2.3 Mbit/s"}], "links": []}, "is not a bandwidth: give a number, or text such as"),
        ({"sites": [], "links": []}, "has no site"),
        ({"links": [{**LINK, "latency": "1e300 s"}]}, "It must be zero or more, and finite: at most a year"),
        ({"links": [{**LINK, "latency": "-1 ms"}]}, "is not a duration"),
    ],
)
def test_values_that_cannot_be_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"name": "n", "sites": SITES, "links": [LINK], **changed}))
    with pytest.raises(CompositionError, match=message):
        load(file)


@pytest.mark.parametrize("given", [None, True, [], 10**400, float("nan"), b"1", {}])
def test_what_is_no_quantity_is_refused(given: Any) -> None:
    for read in (units.bandwidth, units.duration, units.size, units.speed):
        with pytest.raises(CompositionError, match=r"is not a \w+: give a number, or text such as"):
            read(given)


@pytest.mark.parametrize("flag", ["--out", "--checkpoint"])
def test_an_empty_path_is_not_the_current_directory(flag: str) -> None:
    ended = CliRunner().invoke(app, ["run", "quadratic", flag, ""])
    assert ended.exit_code == 2
    assert "it is empty: give a path" in " ".join(ended.output.split())
