"""Laws of pipeline templates: they cover every number of workers, and a run that has lost a stage goes on from its checkpoint on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import polyrhythm as pr
from polyrhythm.errors import CompositionError, StateLostError
from polyrhythm.partition.pipeline import AroundLost, BalancedStages, Pipelined, PipelineTemplates

from .test_lost_seats import MICRO, STEPS, crash, simulated, train


@given(st.lists(st.floats(0.1, 9.0), min_size=3, max_size=9), st.integers(1, 3), st.integers(1, 3), st.integers(0, 14))
@example([4.606852562610773] * 3, 1, 2, 1)  # one pipeline of three and three of one take as many, up to rounding
@settings(deadline=None, max_examples=60)
def test_any_number_of_workers_is_covered_by_the_best_pipelines(costs: list[float], least: int, copies: int, more: int) -> None:
    if 2 * least - 1 > len(costs):
        return
    templates = PipelineTemplates(tuple(costs), least, copies=copies)
    workers = least * copies + more
    found = templates.cover(workers)
    assert sum(each.workers for each in found) == workers
    assert len(found) >= copies
    for each in found:
        assert each.stages.steps == BalancedStages(tuple(costs)).sizes(len(costs), each.workers)
    mesh, stages = templates.mesh(workers)
    assert mesh.workers is not None
    assert mesh.workers <= workers
    equal = (mesh.workers // len(stages.steps)) / next(each.seconds for each in templates.templates if each.stages == stages)
    if len(found) > copies or mesh.workers // len(stages.steps) >= copies:
        assert mesh.workers < workers or sum(1 / each.seconds for each in found) >= equal - 1e-9


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(CompositionError, match="do not cover every number"):
        PipelineTemplates((1.0,) * 6, least=3, most=4)
    with pytest.raises(CompositionError, match="the least first"):
        PipelineTemplates((1.0,) * 3, least=4)
    templates = PipelineTemplates((1.0,) * 4, least=2)
    with pytest.raises(CompositionError, match="too few for 2 pipelines of 2"):
        templates.cover(3)
    with pytest.raises(CompositionError, match="too few for a pipeline of 2"):
        templates.mesh(1)


def test_a_run_that_has_lost_a_stage_goes_on_from_its_checkpoint_on_a_template(tmp_path: Path) -> None:
    templates = PipelineTemplates((1.0, 1.0, 1.0, 1.0), least=1, copies=1)
    stores: Any = pr.Checkpoints(tmp_path, every=2)

    def cut(stages: Any) -> pr.Cut:
        return pr.Cut(pipeline=Pipelined(micro_batches=MICRO, division=stages, routes=AroundLost()))

    mesh, stages = pr.Mesh(dp=2, pp=2), templates.templates[1].stages
    whole = pr.run(train, mesh=mesh, cut=cut(stages), on=simulated()).summary.virtual_seconds
    faults = crash(("worker/1", 0.3 * whole), ("worker/3", 0.6 * whole))
    crew = pr.Crew(2, 4, replace=False)
    with pytest.raises(StateLostError, match="stage 1 are lost"):
        pr.run(train, mesh=mesh, workers=crew, cut=cut(stages), on=simulated(*faults), checkpoints=stores)
    left, division = templates.mesh(3)
    resumed = pr.run(train, mesh=left, cut=cut(division), on=simulated(), checkpoints=pr.Checkpoints(tmp_path, every=2, resume=True))
    assert resumed.summary.steps == STEPS
