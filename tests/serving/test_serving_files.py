"""MODELS, SITE, profiles and plans as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from sites import machines, straight

from polyrhythm.errors import PolyrhythmError
from polyrhythm.serving import ServingMachine, ServingSession, plan
from polyrhythm.serving.server.model_sources import served_models
from polyrhythm.serving.server.profiling import measured_profile
from polyrhythm.serving.server.served_model import InputForm, onnx_form
from polyrhythm.serving.serving_files import read_models, read_plan, read_profiles, read_site, write_plan, write_profiles

MODELS = """
[[models]]
name = "line"
torch = "line.py:make"
input = [3]
[[models]]
name = "slow"
emulated = true
input = [2]
[[sessions]]
name = "s"
model = "line"
slo = "100 ms"
rate = 40
"""
SITE = """
[[machines]]
name = "box"
kind = "laptop"
memory = "8 GB"
count = 2
ray = {num_cpus = 1}
[rules]
network = "10 ms"
headroom = 0.2
[control]
epoch = "20 s"
"""
LINE = """
import torch

def make():
    return torch.nn.Linear(3, 2)

def nothing():
    return 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.toml").write_text(MODELS)
    (tmp_path / "site.toml").write_text(SITE)
    (tmp_path / "line.py").write_text(LINE)
    return tmp_path


def test_files_say_what_is_planned(folder: Path) -> None:
    models, site = read_models(folder / "models.toml"), read_site(folder / "site.toml")
    assert models.served() == (ServingSession("s", "line", 0.1, 40.0),)
    assert site.served() == tuple(ServingMachine(f"box-{index}", "laptop", 8 * 10**9) for index in (1, 2))
    assert site.ray() == {f"box-{index}": {"num_cpus": 1} for index in (1, 2)}
    assert (site.planning().network, site.planning().headroom, site.controlling().epoch) == (0.01, 0.2, 20.0)


def test_a_model_of_a_file_computes_what_it_computes_alone(folder: Path) -> None:
    profiles = [straight("slow", 0.001, 0.001, "laptop", largest=4)]
    served = served_models(read_models(folder / "models.toml"), folder, ["laptop"], profiles)
    assert set(served) == {("line", "laptop"), ("slow", "laptop")}
    given = [np.full(3, value, np.float32) for value in (0.0, 1.0, 2.0)]
    compute = served["line", "laptop"].load()
    together = compute(given)
    assert np.allclose(together, [compute([each])[0] for each in given], atol=1e-6)
    assert list(served["slow", "laptop"].load()([1, 2])) == [1, 2]  # type: ignore[list-item]


def test_a_profile_is_measured_and_kept_beside_others(folder: Path) -> None:
    model = served_models(read_models(folder / "models.toml"), folder, ["laptop"], [])["line", "laptop"]
    found = measured_profile("line", "laptop", model, batches=(1, 4), repeats=3)
    assert found.largest == 4
    path = folder / "profiles.json"
    write_profiles(path, [straight("slow", 0.001, 0.001, largest=4), straight("line", 9.0, 9.0, "laptop", largest=2)])
    write_profiles(path, [found])
    assert set(read_profiles(path)) == {straight("slow", 0.001, 0.001, largest=4), found}


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    made, _ = plan([ServingSession("s", "a", 0.1, 100.0)], machines(2), [straight("a", 0.001, 0.025)])
    write_plan(tmp_path / "plan.json", made)
    assert read_plan(tmp_path / "plan.json") == made


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('torch = "line.py:make"', "", "no source: give one of torch, onnx and emulated"),
        ("emulated = true\ninput = [2]", "emulated = true", "has no input: give the shape"),
        ('model = "line"', 'model = "lime"', "asks for 'lime', which is none of its models. Did you mean 'line'"),
        ("rate = 40", "rate = 40\nrat = 4", "unknown field `rat`"),
        ("line.py:make", "lime.py:make", "no such file. Did you mean '{folder}/line.py'?"),
        ("line.py:make", "line.py:male", "has no function 'male', as the model 'line' says. Did you mean 'make'?"),
        ("line.py:make", "line.py", "write FILE.py:FUNCTION"),
        ('torch = "line.py:make"', 'onnx = "line.onnx"', "no such file"),
    ],
)
def test_a_models_file_that_cannot_be_served_is_a_sentence(folder: Path, old: str, new: str, said: str) -> None:
    assert old in MODELS
    (folder / "models.toml").write_text(MODELS.replace(old, new))
    with pytest.raises(PolyrhythmError) as raised:
        served_models(read_models(folder / "models.toml"), folder, ["laptop"], [])
    assert said.format(folder=folder) in str(raised.value)


def test_a_model_that_cannot_compute_the_input_of_its_file_is_a_sentence(folder: Path) -> None:
    (folder / "models.toml").write_text(MODELS.replace("input = [3]", "input = [4]"))
    served = served_models(read_models(folder / "models.toml"), folder, ["laptop"], [])
    with pytest.raises(PolyrhythmError, match=r"cannot compute inputs of 4 of float32: RuntimeError: .* Give the form of one request"):
        served["line", "laptop"].load()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("headroom", "headrom", r"No field of the SITE file's \[rules\] is called 'headrom'\. Did you mean 'headroom'"),
        ("epoch", "epoc", r"No field of the SITE file's \[control\] is called 'epoc'\. Did you mean 'epoch'"),
        ('kind = "laptop"', "", "missing required field `kind`"),
        ("8 GB", "many", "is not a size"),
    ],
)
def test_a_site_file_that_cannot_be_used_is_a_sentence(folder: Path, old: str, new: str, said: str) -> None:
    (folder / "site.toml").write_text(SITE.replace(old, new))
    with pytest.raises(PolyrhythmError, match=said):
        _ = (site := read_site(folder / "site.toml")).planning(), site.controlling(), site.served()


def test_a_function_that_returns_no_module_is_a_sentence(folder: Path) -> None:
    (folder / "models.toml").write_text(MODELS.replace("line.py:make", "line.py:nothing"))
    with pytest.raises(PolyrhythmError, match=r"returned int: let it return a torch\.nn\.Module"):
        served_models(read_models(folder / "models.toml"), folder, ["laptop"], [])["line", "laptop"].load()


def onnx_file(path: Path, batch: str | int = "batch") -> None:
    """y = x W for inputs of two numbers."""
    made = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, 3])],
        [onnx.numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")],
    )
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def test_an_onnx_file_says_its_form_and_computes_batches(folder: Path) -> None:
    onnx_file(folder / "product.onnx")
    text = MODELS.replace('torch = "line.py:make"\ninput = [3]', 'onnx = "product.onnx"')
    (folder / "models.toml").write_text(text)
    model = served_models(read_models(folder / "models.toml"), folder, ["laptop"], [])["line", "laptop"]
    assert model.form == InputForm((2,))
    results = model.load()([np.array([1, 0], np.float32), np.array([0, 1], np.float32)])
    assert np.allclose(results, [[0, 1, 2], [3, 4, 5]])


def test_an_onnx_file_of_one_batch_size_cannot_be_batched(folder: Path) -> None:
    onnx_file(folder / "product.onnx", batch=4)
    with pytest.raises(PolyrhythmError, match="it cannot be batched"):
        onnx_form(folder / "product.onnx")
    (folder / "text.onnx").write_text("no model")
    with pytest.raises(PolyrhythmError, match="is no model that onnxruntime loads"):
        onnx_form(folder / "text.onnx")
