"""Turns: `pytest --in-turns` runs as much of each test as takes about a quarter of a second, and other cases every day.

`make test` asks for it; `make test-all` runs everything. A law over a list of members keeps those of the cover (`mark.cover`) in every
turn; its other cases take turns, as do single tests that take long. The turn is the day, or what TURN says: its number is printed, and
`TURN=739946 make test` runs the same cases again. tests/durations.json has how long a case takes; `pytest --record-durations` writes it
anew.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
BUDGET = 0.25
"""Seconds of a test in one turn, without the cover."""
WORTH_NOTING = 0.05
"""Seconds from which on a duration is kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    parser.addoption("--in-turns", action="store_true", help="of each test about a quarter of a second; other cases every day")
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.json anew from this session")


def pytest_report_header(config: pytest.Config) -> str:
    """The turn, so that it can be repeated."""
    return f"turn {turn()}: TURN={turn()} runs the same cases" if config.getoption("--in-turns") else ""


def pytest_configure(config: pytest.Config) -> None:
    """Durations are recorded where the whole session is seen, which with xdist is in none of its workers."""
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "durations")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has its turn another day."""
    if not config.getoption("--in-turns"):
        return
    durations: Mapping[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[test_of(item.nodeid)].append(item)
    kept = {item.nodeid for name, group in cases.items() for item in _kept(name, group, durations.get(name, 0.0))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def turn() -> int:
    """The number of the turn."""
    return int(os.environ.get("TURN") or date.today().toordinal())


def test_of(nodeid: str) -> str:
    """The test of which a node is a case."""
    return nodeid.partition("[")[0]


def chosen(name: str, count: int, seconds: float, number: int) -> Iterator[int]:
    """The places of the cases of the test `name` that run in turn `number`, of `count` cases which take `seconds` each.

    Every place comes in one of as many turns in a row as `count * seconds / BUDGET`.
    """
    if count * seconds <= BUDGET:
        yield from range(count)
        return
    every = math.ceil(count * seconds / BUDGET)
    offset = zlib.crc32(name.encode())
    yield from (place for place in range(count) if (place + offset + number) % every == 0)


def _kept(name: str, group: Sequence[pytest.Item], seconds: float) -> Iterable[pytest.Item]:
    cover = [item for item in group if item.get_closest_marker("cover")]
    others = [item for item in group if not item.get_closest_marker("cover")]
    return [*cover, *(others[place] for place in chosen(name, len(others), seconds, turn()))]


class Recorder:
    """Adds up what the cases of each test took, and writes the mean of each test."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of each case the set-up, the call and the tear-down."""
        self._seconds[test_of(report.nodeid)][report.nodeid] += report.duration

    def pytest_sessionfinish(self, session: Any) -> None:
        """Tests that were not run keep what they took before."""
        means = {name: sum(cases.values()) / len(cases) for name, cases in self._seconds.items()}
        before = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
        noted = {**before, **{name: round(mean, 2) for name, mean in means.items()}}
        kept = {name: mean for name, mean in sorted(noted.items()) if mean >= WORTH_NOTING}
        DURATIONS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
