"""Models of all kinds compute the same after they have left."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from random_models import KINDS

import polyrhythm as pr
from polyrhythm.export.onnx import Onnx
from polyrhythm.export.program import program_of

CASES = [(seed, KINDS[seed % len(KINDS)]) for seed in range(20)]


@pytest.mark.parametrize(("seed", "kind"), CASES, ids=[f"{kind.__name__}-{seed}" for seed, kind in CASES])
def test_a_random_model_gives_the_outputs_of_torch_for_any_number_of_samples(seed: int, kind: object, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    assert callable(kind)
    model, inputs = kind(Random(seed))
    program = program_of(model, inputs(1))
    assert model.training, "the user's model stays as it was"
    predictor = pr.Predictor(Onnx().write(program, tmp_path))
    model.eval()
    for samples in (1, 2, 7):
        given = inputs(samples)
        predictor.set_input(program.inputs[0], given)
        predictor.forward()
        for name, expected in zip(program.outputs, program(given), strict=True):
            found = predictor.get_output(name)
            assert found.shape == tuple(expected.shape)
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-5)
