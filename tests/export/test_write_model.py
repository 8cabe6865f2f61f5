"""What an export writes, compares, measures and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec
import onnx
import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError, ExportError
from polyrhythm.export.budget import DeviceBudget
from polyrhythm.export.export_report import ExportReport
from polyrhythm.export.onnx import Onnx
from polyrhythm.export.program import ModelProgram, program_of
from polyrhythm.export.writing import ExportLimits, write_model
from polyrhythm.hardware.devices import DEVICES, Profile


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(6, 3)


X = torch.ones(1, 6)


def test_the_folder_has_the_model_and_the_report_that_is_returned(tmp_path: Path) -> None:
    report = write_model(linear(), X, tmp_path / "new" / "folder", limits=ExportLimits(runs=3))
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == ["model.onnx", "report.json"]
    assert msgspec.json.decode((folder / "report.json").read_bytes(), type=ExportReport) == report
    assert (report.nbytes, report.parameters, report.flops) == ((folder / "model.onnx").stat().st_size, 21, 36)
    assert report.difference < 1e-6
    assert report.agreement == 1
    assert 0 < report.median_seconds <= report.p99_seconds
    assert 0 < report.memory < 500e6


def test_the_file_names_nothing_of_the_machine_that_wrote_it(tmp_path: Path) -> None:
    write_model(linear(), X, tmp_path, limits=ExportLimits(runs=1))
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert str(Path(__file__).parent).encode() not in (tmp_path / "model.onnx").read_bytes()
    assert [dimension.dim_param for dimension in model.graph.output[0].type.tensor_type.shape.dim] == ["batch", ""]


@pytest.mark.parametrize(
    ("text", "over"),
    [("size=100B", "it has .* of 100 B"), ("latency=1ns", "a sample takes .* of .* here"), ("memory=1B", "it needs .* of memory of 1 B")],
)
def test_a_model_over_its_budget_is_refused_with_what_it_is_over_and_leaves_nothing(text: str, over: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=rf"model.onnx is over its budget: {over}.*times\)\. Quantise it"):
        write_model(linear(), X, tmp_path, limits=ExportLimits(DeviceBudget.parse(text), runs=3))
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_charged_by_its_speed(tmp_path: Path) -> None:
    device = DEVICES["raspberry-pi-4"]
    report = write_model(linear(), X, tmp_path, limits=ExportLimits(DeviceBudget(latency=1.0), device, runs=1))
    assert report.device_seconds == device.step_seconds(36, 0)
    with pytest.raises(ExportError, match=r"of .* on raspberry-pi-4, by its speed"):
        write_model(linear(), X, tmp_path / "other", limits=ExportLimits(DeviceBudget(latency=1e-3), device, runs=1))
    with pytest.raises(CompositionError, match="has measured steps of training"):
        ExportLimits(device=Profile("mine", (0.1,)))


@pytest.mark.parametrize("text", ["", "size", "size=", "size=x", "speed=3", "size=-1MB", "latency=3MB", "size=0B"])
def test_text_that_is_no_budget_is_a_sentence(text: str) -> None:
    with pytest.raises(pr.PolyrhythmError) as problem:
        DeviceBudget.parse(text)
    assert len(str(problem.value)) > 20


class Fixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(2, 6) + 1


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Bessel(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(x)


class Words(nn.Module):
    def forward(self, x: Tensor) -> object:
        return {"text": "yes", "x": x}


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (Fixed(), torch.ones(2, 6), r"Fixed fixes a size that should vary \(batch\): .* x.shape\[0\]"),
        (Branching(), X, "Branching cannot be exported: .* without branches on values of tensors"),
        (Bessel(), X, r"Bessel uses \S*bessel_j0, which ONNX has no operator for: write that part"),
        (Words(), X, "The model returns a str: return tensors"),
        (linear(), torch.ones(2, 7), r"Linear cannot compute the example of shapes \(2, 7\)"),
        (linear(), (), "The example is not made of tensors"),
        (linear(), ("x",), "The example is not made of tensors"),
        (lambda x: x, X, "function is no model: give a torch.nn.Module"),
    ],
)
def test_what_cannot_leave_is_a_sentence(
    model: nn.Module, example: Tensor, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExportError, match=message):
        write_model(model, example, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": ["a", "b"]}, r"\['a', 'b'\] are no names of the inputs, of which there are 1"),
        ({"outputs": []}, r"\[\] are no names of the outputs"),
        ({"varying": {"y": (0,)}}, "varying names 'y', which is no input: there are input"),
        ({"varying": {"input": (2,)}}, "varying names dimension 2 of input, which has 2"),
    ],
)
def test_names_and_dimensions_that_are_not_there_are_sentences(options: dict[str, object], message: str) -> None:
    with pytest.raises(ExportError, match=message):
        program_of(linear(), X, **options)  # type: ignore[arg-type]


def test_a_model_of_one_size_can_leave_with_nothing_that_varies(tmp_path: Path) -> None:
    file = Onnx().write(program_of(Fixed(), torch.ones(2, 6), varying={}), tmp_path)
    assert pr.Predictor(file).inputs == {"x": (2, 6)}


def test_other_dimensions_may_vary_too(tmp_path: Path) -> None:
    class Mean(nn.Module):
        def forward(self, sequence: Tensor) -> Tensor:
            return sequence.mean(1)

    file = Onnx().write(program_of(Mean(), torch.ones(1, 1, 4), varying={"sequence": (0, 1)}), tmp_path)
    predictor = pr.Predictor(file)
    assert predictor.inputs == {"sequence": ("batch", "sequence_1", 4)}
    predictor.set_input("sequence", torch.ones(3, 9, 4))
    predictor.forward()
    assert predictor.get_output_shape() == (3, 4)


class Misread:
    """A target that writes another model."""

    name: ClassVar[str] = "misread"
    exact: ClassVar[bool] = True
    opener: ClassVar[Path] = Onnx.opener

    def check(self) -> None:
        return

    def write(self, program: ModelProgram, folder: Path) -> Path:
        return Onnx().write(program_of(nn.Linear(6, 3), program.example), folder)

    def outputs(self, file: Path, program: ModelProgram, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return Onnx().outputs(file, program, inputs)


class Spoilt:
    """A target that writes the model, and whose runtime returns nothing but `value`."""

    name: ClassVar[str] = "spoilt"
    opener: ClassVar[Path] = Onnx.opener

    def __init__(self, value: float, exact: bool) -> None:
        self.value, self.exact = value, exact

    def check(self) -> None:
        return

    def write(self, program: ModelProgram, folder: Path) -> Path:
        return Onnx().write(program, folder)

    def outputs(self, file: Path, program: ModelProgram, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(torch.full_like(each, self.value) for each in program(*inputs))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_file_that_computes_nothing_finite_is_refused(value: float, exact: bool, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="has NaN or infinity where torch's has another value"):
        write_model(linear(), X, tmp_path, to=Spoilt(value, exact))
    assert list(tmp_path.iterdir()) == []


def test_infinity_and_nan_that_torch_has_too_are_exact(tmp_path: Path) -> None:
    class Logarithms(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.log(x)

    report = write_model(Logarithms(), torch.tensor([[-1.0, 0.0, 1.0, 2.0]]), tmp_path, limits=ExportLimits(runs=1))
    assert report.difference < 1e-6


def test_a_small_output_is_not_measured_by_a_large_one(tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self, off: float) -> None:
            super().__init__()
            self.off = off

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return 1e6 * x, x + self.off

    class OffByOne(Misread):
        def write(self, program: ModelProgram, folder: Path) -> Path:
            return Onnx().write(program_of(Two(1.0), program.example), folder)

    with pytest.raises(ExportError, match="differs from torch's by 1"):
        write_model(Two(0.0), X, tmp_path, to=OffByOne())


def test_a_file_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"output differs from torch's by .* the exporter has misread the model"):
        write_model(linear(), X, tmp_path, to=Misread())
    assert list(tmp_path.iterdir()) == []
