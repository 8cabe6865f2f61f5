"""Models of all kinds compute the same in ExecuTorch's runtime, on this machine's CPU."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from random_models import KINDS, bag, recurrent

import polyrhythm as pr
from polyrhythm.errors import ExportError
from polyrhythm.export.executorch import ExecuTorch
from polyrhythm.export.program import program_of
from polyrhythm.export.writing import ExportLimits, write_model

KNOWN = [kind for kind in KINDS if kind not in (recurrent, bag)]
CASES = [(seed, KNOWN[seed % len(KNOWN)]) for seed in range(12)]
pytestmark = pytest.mark.filterwarnings("ignore")  # those of executorch about itself


@pytest.mark.parametrize(("seed", "kind"), CASES, ids=[f"{kind.__name__}-{seed}" for seed, kind in CASES])
def test_a_random_model_gives_the_outputs_of_torch_for_any_number_of_samples(seed: int, kind: object, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    assert callable(kind)
    model, inputs = kind(Random(seed))
    program, target = program_of(model, inputs(1)), ExecuTorch()
    file = target.write(program, tmp_path)
    for samples in (1, 2, 7):
        given = (inputs(samples),)
        for found, expected in zip(target.outputs(file, program, given), program(*given), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_recurrent_model_leaves_for_one_number_of_samples_and_for_any_it_is_equal_or_refused(seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    model, inputs = recurrent(Random(seed))
    far, refusal = 0.0, ""
    try:
        far = write_model(model, inputs(2), tmp_path, to=ExecuTorch(), limits=ExportLimits(runs=1)).difference
    except ExportError as problem:
        refusal = str(problem)
    assert far < 1e-5
    assert not refusal or ("ExecuTorch cannot compute the written model for" in refusal and list(tmp_path.iterdir()) == [])
    report = write_model(program_of(model, inputs(1), varying={}), folder=tmp_path, to=ExecuTorch(), limits=ExportLimits(runs=3))
    assert report.difference < 1e-5


def test_an_operator_that_executorch_does_not_have_is_a_sentence(tmp_path: Path) -> None:
    model, inputs = bag(Random(5))
    with pytest.raises(ExportError, match=r"Bag cannot be written for ExecuTorch: Operator \S*_embedding_bag\S* is not in Core ATen opset"):
        ExecuTorch().write(program_of(model, inputs(1)), tmp_path)


def test_the_report_has_what_the_model_takes(tmp_path: Path) -> None:
    report = pr.export.write_model(torch.nn.Linear(4, 2), torch.ones(1, 4), tmp_path, to=ExecuTorch(), limits=ExportLimits(runs=5))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pte", "report.json"]
    assert 0 < report.median_seconds <= report.p99_seconds
    with pytest.raises(pr.PolyrhythmError, match="no model"):
        pr.Predictor(tmp_path)
