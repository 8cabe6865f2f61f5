"""What is built from the repository: wheels with and without the engine in C, and a source distribution that builds them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, TOOLS = PYPROJECT["project"], PYPROJECT["tool"]
BUILD_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
ENGINE = "import polyrhythm.core.shared_memory.group as group; print(group.Native.__name__, group.__file__)"
TRAINING = """
import torch

def train(worker):
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    worker.evaluate(lambda model: {"loss": model(x).square().mean().item()})
    for (part,) in worker.batches((x,), batch_size=4):
        optimizer.zero_grad()
        model(part).square().mean().backward()
        optimizer.step()
"""


def pinned(name: str) -> dict[str, str]:
    lines = (line.partition("==") for line in (ROOT / name).read_text().splitlines())
    return {canonicalize_name(name): version for name, _, version in lines if version}


def pins() -> dict[str, str]:
    others = ("docs", "engines", "executorch", "mutation")
    return pinned("requirements.txt") | {name: pin for other in others for name, pin in pinned(f"requirements-{other}.txt").items()}


def test_what_is_installed_beside_the_requirements_pins_none_of_them_again() -> None:
    for other in ("docs", "engines", "executorch"):
        assert not pinned(f"requirements-{other}.txt").keys() & pinned("requirements.txt").keys()


def test_the_extra_of_a_logger_brings_the_database_that_it_writes_by_default() -> None:
    """mlflow's client brings none, and fails at its first metric without."""
    assert {Requirement(text).name for text in PROJECT["optional-dependencies"]["mlflow"]} == {"mlflow-skinny", "sqlalchemy", "alembic"}


def test_nothing_is_pinned_for_engines_that_only_the_whole_of_mlflow_asks_for() -> None:
    server_and_flavours = {
        "mlflow",
        "mlflow-tracing",
        "flask",
        "flask-cors",
        "graphene",
        "gunicorn",
        "huey",
        "docker",
        "skops",
        "matplotlib",
    }
    assert not pinned("requirements-engines.txt").keys() & server_and_flavours
    assert pinned("requirements-engines.txt").keys() >= {"mlflow-skinny", "sqlalchemy", "alembic"}


def test_every_requirement_is_a_range_that_holds_what_is_tested() -> None:
    # those of the rivals are exact, and are pinned in a file of their own
    extras = [text for extra, texts in PROJECT["optional-dependencies"].items() if extra != "bench" for text in texts]
    for text in (*PROJECT["dependencies"], *extras):
        wanted = Requirement(text)
        assert wanted.specifier.contains(pins()[canonicalize_name(wanted.name)]), text
        assert "==" not in text, text


def test_an_install_without_extras_can_plan_and_has_the_bundled_jobs() -> None:
    base = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert {"numpy", "scikit-learn"} <= base
    extras = {canonicalize_name(Requirement(text).name) for texts in PROJECT["optional-dependencies"].values() for text in texts}
    for file in (ROOT / "src" / "polyrhythm" / "tools" / "planner").glob("*.py"):
        named = set(re.findall(r"^ *(?:import|from) (\w+)", file.read_text(), re.MULTILINE))
        named |= set(re.findall(r'import_module\("(\w+)"\)', file.read_text()))
        assert not {canonicalize_name(name) for name in named} & extras, file


def test_a_source_distribution_has_all_data_of_the_package_and_no_rule_of_it_is_stale() -> None:
    rules = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines() if not line.startswith("global-exclude")]
    included: set[Path] = set()
    for rule, *words in rules:
        folder, patterns = (ROOT, words) if rule == "include" else (ROOT / words[0], words[1:])
        for pattern in patterns:
            found = set(folder.glob(pattern) if rule == "include" else folder.rglob(pattern))
            assert found, f"MANIFEST.in includes {pattern} in {folder.name}, where there is none"
            included |= found
    for pattern in TOOLS["setuptools"]["package-data"]["polyrhythm"]:
        data = set((ROOT / "src" / "polyrhythm").glob(pattern))
        assert data, f"pyproject's package data {pattern} do not exist"
        assert data <= included, f"MANIFEST.in does not include {pattern}"


def run(*command: object, cwd: Path, **environment: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The repository as a source distribution holds it, unpacked."""
    copy = tmp_path / "repository"
    unwanted = shutil.ignore_patterns(".*", "*.so", "*.egg-info", "__pycache__", "build", "dist", "runs", "results")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    run(sys.executable, "-c", BUILD_SDIST, tmp_path, cwd=copy)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as whole:
        whole.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    return folder


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "engine"), [({}, "Native"), ({"CC": "false"}, "Portable")], ids=["with C", "without C"])
def test_a_wheel_built_from_the_source_distribution_works(sources: Path, tmp_path: Path, compiler: dict[str, str], engine: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, ".", cwd=sources, **compiler)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as whole:
        names = whole.namelist()
    assert {
        "polyrhythm/py.typed",
        "polyrhythm/tools/report/templates/page.html.jinja",
        "polyrhythm/export/pages/drawing/index.html",
        "polyrhythm/export/pages/style.css",
        "polyrhythm/core/shared_memory/_native.pyi",
        "polyrhythm/core/processes/runtime/_beats.pyi",
        "polyrhythm/systems/verdicts.json",
    } <= set(names)
    assert not [name for name in names if name.endswith(".c")]
    site = tmp_path / "site"
    run(*pip, "install", "--no-deps", "--target", site, wheel, cwd=tmp_path)

    (tmp_path / "job.py").write_text(TRAINING)
    here = {"PYTHONPATH": str(site)}
    assert run(sys.executable, "-c", ENGINE, cwd=tmp_path, **here).startswith(f"{engine} {site}")
    polyrhythm = [sys.executable, "-m", "polyrhythm"]
    assert "direct" in run(*polyrhythm, "systems", cwd=tmp_path, **here)
    assert "direct ended with loss" in run(*polyrhythm, "run", "job.py", "--system", "direct", "--workers", 2, cwd=tmp_path, **here)
    pair = ["--systems", "single,ssp", "--workers", 2, "--on", "simulator", "--network", "slow", "--out", "pair"]
    run(*polyrhythm, "compare", "job.py", *pair, cwd=tmp_path, **here)
    assert (tmp_path / "pair" / "report.html").stat().st_size > 100_000
