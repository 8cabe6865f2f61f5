"""Models in 8 bits: small, and as good as before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import ExportError
from polyrhythm.export.onnx import Onnx
from polyrhythm.export.precision import DynamicInt8, Precision, StaticInt8
from polyrhythm.export.program import program_of
from polyrhythm.workloads.digits import digits, small_cnn, wide_mlp


def trained(model: nn.Module, epochs: int) -> nn.Module:
    """`model` after so many epochs of the digits."""
    x, y = digits()[0].tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _ in range(epochs):
        for places in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(model(x[places]), y[places]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model


def accuracy(file: Path) -> float:
    """The share of the digits to test on that the model in `file` names correctly."""
    x, y = digits()[1].tensors
    predictor = pr.Predictor(file)
    predictor.set_input("image", x)
    predictor.forward()
    return float((predictor.get_output().argmax(1) == y.numpy()).mean())


def precisions() -> dict[str, Precision]:
    samples = digits()[0].tensors[0][:256]
    return {"static": StaticInt8((samples,)), "per channel": StaticInt8((samples,), per_channel=True), "dynamic": DynamicInt8()}


@pytest.mark.parametrize(("make", "epochs"), [(small_cnn, 8), (wide_mlp, 3)], ids=["cnn", "mlp"])
def test_int8_has_three_tenths_of_the_bytes_and_loses_at_most_a_point(make: object, epochs: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert callable(make)
    program = program_of(trained(make(), epochs), digits()[1].tensors[0][:2], inputs=["image"])
    full = Onnx().write(program, tmp_path)
    nbytes, before = full.stat().st_size, accuracy(full)
    assert before > 0.9
    for name, precision in precisions().items():
        folder = tmp_path / name
        folder.mkdir()
        file = Onnx(precision).write(program, folder)
        assert file.stat().st_size <= 0.3 * nbytes, name
        assert accuracy(file) >= before - 0.01, name


def test_recurrent_and_embedding_layers_have_a_quarter_of_the_bytes_too(tmp_path: Path) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.recurrent = nn.Embedding(500, 64), nn.LSTM(64, 64, batch_first=True)

        def forward(self, words: Tensor) -> Tensor:
            return self.recurrent(self.embedding(words))[0][:, -1]

    program = program_of(Words(), torch.zeros(2, 5, dtype=torch.int64))
    nbytes = Onnx().write(program, tmp_path).stat().st_size
    assert Onnx(DynamicInt8()).write(program, tmp_path).stat().st_size <= 0.3 * nbytes


def test_samples_that_do_not_fit_are_a_sentence(tmp_path: Path) -> None:
    program = program_of(small_cnn(), torch.zeros(2, 1, 8, 8))
    for samples in ((), (torch.zeros(64, 8, 8),), (torch.zeros(3, 1, 8, 8),)):
        with pytest.raises(ExportError, match="StaticInt8 got samples of shapes"):
            Onnx(StaticInt8(samples)).write(program, tmp_path)
