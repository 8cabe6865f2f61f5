"""What controllers decided is drawn: a line for each worker or link, until the end of its run."""

from __future__ import annotations

import torch
from toy import SLOW, Toy

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.tools.report.adjustments import decided
from polyrhythm.tools.report.page import page
from polyrhythm.tools.report.series import series_of

LONG = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.02), epochs=12, batch_size=4)


def test_the_page_draws_what_was_decided_about_each_setting() -> None:
    outcomes = [run(LONG, workers=3, strategy=name, on=Simulator(network=SLOW)).outcome for name in ("ako", "dlion", "allreduce")]
    drawn = page(outcomes, "decided")
    for setting in ("partitions", "bytes", "samples a batch"):
        assert f"Decided while running: {setting}" in drawn
    lines = decided(series_of(outcomes), most=2)
    assert {setting: len(found) for setting, found in lines.items()} == {"partitions": 2, "bytes": 2, "samples a batch": 2}
    for line in (line for found in lines.values() for line in found):
        assert line.times == sorted(line.times)
        assert line.times[-1] == line.series.outcome.time
    assert "Decided" not in page(outcomes[2:], "fixed")
