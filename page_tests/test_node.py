"""Models of all kinds give in WebAssembly, under Node, what torch gives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from random_models import KINDS

from polyrhythm.export.onnx import Onnx
from polyrhythm.export.program import program_of
from polyrhythm.export.web_runtime import web_runtime

CASES = [(seed, KINDS[seed % len(KINDS)]) for seed in range(16)]
COMPUTE = Path(__file__).with_name("compute.mjs")


@pytest.mark.parametrize(("seed", "kind"), CASES, ids=[f"{kind.__name__}-{seed}" for seed, kind in CASES])
def test_a_random_model_gives_the_outputs_of_torch_in_webassembly(seed: int, kind: object, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    assert callable(kind)
    model, inputs = kind(Random(seed))
    given = inputs(3)
    program = program_of(model, inputs(1))
    file = Onnx().write(program, tmp_path)
    written = {"type": str(given.dtype).removeprefix("torch."), "values": given.flatten().tolist(), "shape": list(given.shape)}
    (tmp_path / "input.json").write_text(json.dumps(written))
    words = ["node", str(COMPUTE), str(web_runtime()), str(file), str(tmp_path / "input.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, (expected, *_) = json.loads(done.stdout), program(given)
    assert found["shape"] == list(expected.shape)
    np.testing.assert_allclose(found["values"], expected.flatten().numpy(), rtol=1e-4, atol=1e-4)
