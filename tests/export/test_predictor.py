"""The four calls of a predictor, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import PredictorError, UnknownNameError
from polyrhythm.export.onnx import Onnx
from polyrhythm.export.program import program_of


class Pair(nn.Module):
    """Two inputs of different types and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)

    def forward(self, words: Tensor, weight: Tensor) -> dict[str, Tensor]:
        mean = (self.words(words) * weight).mean(1)
        return {"mean": mean, "largest": mean.amax(-1)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    program = program_of(Pair(), (torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, 4)))
    return Onnx().write(program, tmp_path_factory.mktemp("pair"))


WORDS, WEIGHT = np.array([[1, 2, 3]]), np.ones((1, 3, 4), np.float32)


def test_inputs_and_outputs_have_names_and_shapes_in_which_the_batch_is_free(file: Path) -> None:
    predictor = pr.Predictor(file.parent)
    assert predictor.inputs == {"words": ("batch", 3), "weight": ("batch", 3, 4)}
    assert predictor.outputs == ["mean", "largest"]


def test_the_four_calls_give_the_outputs_by_number_and_by_name(file: Path) -> None:
    predictor = pr.Predictor(file, {"words": (1, 3)})
    predictor.set_input("words", [[1, 2, 3]])
    predictor.set_input("weight", torch.ones(1, 3, 4))
    predictor.forward()
    assert predictor.get_output_shape(0) == (1, 4)
    np.testing.assert_array_equal(predictor.get_output(0), predictor.get_output("mean"))
    np.testing.assert_allclose(predictor.get_output(0).max(-1), predictor.get_output(1))


def test_a_predictor_computes_only_the_outputs_that_are_wanted(file: Path) -> None:
    predictor = pr.Predictor(file, outputs=["largest"])
    predictor.set_input("words", WORDS)
    predictor.set_input("weight", WEIGHT)
    predictor.forward()
    assert predictor.outputs == ["largest"]
    assert predictor.get_output(0).shape == (1,)


def test_a_predictor_does_not_load_torch(file: Path) -> None:
    code = f"import sys, polyrhythm as pr; pr.Predictor({str(file)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("words", np.zeros((1, 4), np.int64), r"words was given the shape \(1, 4\), and takes \(batch, 3\), with any batch"),
        ("words", np.zeros(3, np.int64), r"words was given the shape \(3,\), and takes \(batch, 3\)"),
        ("words", WORDS.astype(np.float32), r"words takes int64, and was given float32: convert it, with .astype\('int64'\)"),
        ("weight", WEIGHT.astype(np.float64), r"weight takes float32, and was given float64"),
        ("weight", [[1.0], [1.0, 2.0]], r"weight was given what is no array of numbers"),
        ("weight", "x", r"weight takes float32, and was given <U1"),
    ],
)
def test_wrong_shapes_and_types_are_sentences(file: Path, name: str, data: Any, message: str) -> None:
    with pytest.raises(PredictorError, match=message):
        pr.Predictor(file).set_input(name, data)


def test_wrong_names_are_sentences(file: Path) -> None:
    predictor = pr.Predictor(file)
    with pytest.raises(UnknownNameError, match=r"No input of the model is called 'word'\. Did you mean 'words'"):
        predictor.set_input("word", WORDS)
    with pytest.raises(UnknownNameError, match="No input of the model is called 'image'"):
        pr.Predictor(file, {"image": (1, 3)})
    with pytest.raises(UnknownNameError, match="No output of the model is called 'means'"):
        pr.Predictor(file, outputs=["means"])
    with pytest.raises(PredictorError, match=r"words was given the shape \(1, 5\)"):
        pr.Predictor(file, {"words": (1, 5)})


def test_calls_in_the_wrong_order_are_sentences(file: Path) -> None:
    predictor = pr.Predictor(file, {"words": (1, 3)})
    with pytest.raises(PredictorError, match="There is no output yet: call forward"):
        predictor.get_output()
    predictor.set_input("words", WORDS)
    with pytest.raises(PredictorError, match=r"The input weight has no value: call set_input\('weight', data\)"):
        predictor.forward()
    predictor.set_input("weight", WEIGHT)
    predictor.forward()
    with pytest.raises(PredictorError, match="no output 2: there are 2"):
        predictor.get_output(2)
    with pytest.raises(UnknownNameError, match="No output of the predictor is called 'x'"):
        predictor.get_output("x")
    with pytest.raises(PredictorError, match=r"was made for \(1, 3\)"):
        predictor.set_input("words", np.zeros((2, 3), np.int64))
    predictor.set_input("words", WORDS)
    with pytest.raises(PredictorError, match="There is no output yet"):
        predictor.get_output()


def test_sizes_that_do_not_belong_together_are_a_sentence(file: Path) -> None:
    predictor = pr.Predictor(file)
    predictor.set_input("words", np.zeros((2, 3), np.int64))
    predictor.set_input("weight", np.ones((3, 3, 4), np.float32))
    with pytest.raises(PredictorError, match=r"cannot compute inputs of shapes words \(2, 3\), weight \(3, 3, 4\)"):
        predictor.forward()


def written(folder: Path, operator: str, domain: str) -> Path:
    """A model of one operator, which need not exist."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, ["x"], ["y"], domain=domain)],
        "model",
        [value("x", onnx.TensorProto.FLOAT, [1])],
        [value("y", onnx.TensorProto.FLOAT, [1])],
    )
    opsets = [onnx.helper.make_opsetid("", 20)] + ([onnx.helper.make_opsetid(domain, 1)] if domain else [])
    path = folder / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


@pytest.mark.parametrize("domain", ["", "of.ours"])
def test_a_missing_operator_is_a_sentence(tmp_path: Path, domain: str) -> None:
    with pytest.raises(PredictorError, match=r"uses the operator \S*Wobble\S*, which this onnxruntime .* does not have"):
        pr.Predictor(written(tmp_path, "Wobble", domain))


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"not a model"])
def test_what_is_no_model_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(PredictorError, match="is no model that onnxruntime can open"):
        pr.Predictor(tmp_path)
    with pytest.raises(PredictorError, match="There is no model"):
        pr.Predictor(tmp_path / "other.onnx")
    (tmp_path / "model.pte").write_bytes(content)
    with pytest.raises(PredictorError, match="is ExecuTorch's"):
        pr.Predictor(tmp_path / "model.pte")
