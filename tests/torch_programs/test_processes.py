"""Laws of the two carriers of ranks: a process for each gives what threads give, to the byte, and shares nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import polyrhythm as pr

from .programs import PROGRAMS, data_parallel, pipeline_in_turns


@dataclass(frozen=True)
class Printed:
    """A program that prints what it returns."""

    main: Callable[[], Any]

    def __call__(self) -> None:
        print(os.environ["RANK"], repr(self.main()))


def carried(main: Callable[[], Any], ranks: int, carrier: str, **how: Any) -> tuple[pr.Run, bytes]:
    """The run, and all its events as bytes."""
    run = pr.simulate(main, ranks=ranks, on=pr.Simulator(carrier=carrier, **how))
    return run, msgspec.json.encode(run.outcome.events)


def same_in_both(main: Callable[[], Any], ranks: int, capsys: pytest.CaptureFixture[str], **how: Any) -> str:
    """What the ranks print, the same with both carriers, in the same order; events, times and bytes too."""
    found = []
    for carrier in ("threads", "processes"):
        run, events = carried(Printed(main), ranks, carrier, **how)
        found.append((capsys.readouterr().out, events, run.summary.virtual_seconds, run.summary.bytes_sent, run.summary.messages_sent))
    assert found[0] == found[1]
    return str(found[0][0])


FEW = [(data_parallel, 2, "slow"), (pipeline_in_turns, 2, "lan")]
ALL = [(program.main, ranks, network) for program in PROGRAMS for ranks in program.ranks for network in ("lan", "slow")]


@pytest.mark.parametrize(
    ("main", "ranks", "network"),
    [pytest.param(*case, marks=() if case in FEW else pytest.mark.long) for case in ALL],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_both_carriers_give_the_same_to_the_byte(
    main: Callable[[], float], ranks: int, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert same_in_both(main, ranks, capsys, network=network).count("\n") == ranks
