"""Pages: what they are made of, and what is said where the browser's runtime cannot be had. `make test-page` opens them in a browser."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError, ExportError
from polyrhythm.export import web_runtime
from polyrhythm.export.job_pages import page_of
from polyrhythm.export.page import ContinuedText, DrawnImages, Page, PageContent
from polyrhythm.export.precision import FullPrecision
from polyrhythm.export.program import program_of
from polyrhythm.workloads.chars import corpus
from polyrhythm.workloads.digits import digits, normalisation, small_cnn

PAGES = Path(web_runtime.__file__).with_name("pages")
Npm = Callable[[str], None]


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    """Make a command npm, which does what a script of the shell says, the only one; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(script: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "npm").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return put


def archive(path: Path, content: bytes) -> Path:
    """An archive as npm packs it, with these bytes in each of the two files."""
    with tarfile.open(path, "w:gz") as package:
        for name in web_runtime.FILES:
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(content)
            package.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def runtime(tmp_path: Path, npm: Npm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small runtime that the only npm gives once; returns the file that counts its calls."""
    content = b"no runtime, but its place"
    monkeypatch.setattr(web_runtime, "FILES", dict.fromkeys(web_runtime.FILES, hashlib.sha256(content).hexdigest()))
    npm(f'echo "$@" >> {tmp_path / "calls"}; cp {archive(tmp_path / "made.tgz", content)} "$4"')
    return tmp_path / "calls"


def test_the_runtime_is_fetched_once_and_kept(runtime: Path) -> None:
    first, second = web_runtime.web_runtime(), web_runtime.web_runtime()
    assert first == second
    assert sorted(path.name for path in first.iterdir()) == sorted(web_runtime.FILES)
    assert re.fullmatch(r"pack onnxruntime-web@[\d.]+ --pack-destination \S+ --silent\n", runtime.read_text())
    next(first.iterdir()).write_bytes(b"damaged")
    web_runtime.web_runtime()
    assert runtime.read_text().count("\n") == 2


def test_without_npm_or_its_registry_the_remedy_is_said(npm: Npm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExportError, match=r"which npm fetches, and there is no npm here: install Node\.js, or put ort\.wasm"):
        web_runtime.web_runtime()
    npm("echo 'npm error network request failed' >&2; exit 1")
    with pytest.raises(
        ExportError, match=r"npm could not fetch onnxruntime-web@\S+ \(npm error network request failed\): connect this machine"
    ):
        web_runtime.web_runtime()


def test_another_file_than_the_tested_one_is_refused(npm: Npm, tmp_path: Path) -> None:
    npm(f'cp {archive(tmp_path / "made.tgz", b"something else")} "$4"')
    with pytest.raises(ExportError, match="is not the file that this release was tested with"):
        web_runtime.web_runtime()


def test_a_page_is_a_whole_folder_that_asks_no_other_host(runtime: Path, tmp_path: Path) -> None:
    report = pr.export.write_model(small_cnn(), torch.zeros(1, 1, 8, 8), tmp_path / "page", to=page_of("digits-cnn", FullPrecision()))
    assert report.target == "page"
    names = {path.name for path in (tmp_path / "page").iterdir()}
    assert {"index.html", "model.onnx", "report.json", "settings.json", "onnxruntime", "style.css", "runtime.js"} <= names
    settings = json.loads((tmp_path / "page" / "settings.json").read_text())
    assert (settings["height"], settings["width"], settings["most"]) == (8, 8, 16)
    images = digits()[0].tensors[0] * settings["deviation"] + settings["mean"]
    assert images.min().abs() < 1e-5
    assert abs(images.max().item() - 16) < 1e-5
    for path in (tmp_path / "page").glob("*.*"):
        if path.suffix in (".html", ".js", ".css"):
            assert set(re.findall(r"https?://[\w.]+", path.read_text())) <= {"http://localhost"}, path
            assert not re.findall(r"(?:src|href)=\"(?!data:|[\w]+\.(?:css|js)\")", path.read_text()), path


def test_what_a_page_names_is_beside_it() -> None:
    for kind in ("drawing", "text"):
        there = {path.name for path in (*PAGES.glob("*.*"), *(PAGES / kind).iterdir())}
        for path in (*PAGES.glob("*.js"), *(PAGES / kind).iterdir()):
            named = re.findall(r"(?:src|href)=\"([\w.]+)\"|from \"\./([\w.]+)\"", path.read_text())
            assert {name for pair in named for name in pair if name} <= there, path


def test_the_symbols_of_the_text_are_its_bytes_by_number() -> None:
    assert len(corpus().symbols) == corpus().vocabulary
    start = bytes(corpus().symbols[number] for number in corpus().training[:200].tolist())
    assert start.decode().isprintable() or "\n" in start.decode()


@pytest.mark.parametrize(
    ("content", "model", "example", "message"),
    [
        (DrawnImages(4.0, 2.0, 16.0), nn.Linear(8, 10), torch.ones(2, 8), r"takes \(2, 8\) and gives \(2, 10\)"),
        (DrawnImages(4.0, 2.0, 16.0, labels=("a", "b")), small_cnn(), torch.ones(2, 1, 8, 8), "to 2 scores, and this one"),
        (
            ContinuedText(b"ab"),
            nn.Embedding(3, 3),
            torch.zeros(2, 5, dtype=torch.int64),
            r"scores of 2 at each place, and this one takes \(2, 5\)",
        ),
    ],
)
def test_a_model_that_a_page_cannot_show_is_a_sentence(
    content: PageContent, model: nn.Module, example: torch.Tensor, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=message):
        Page(content).write(program_of(model, example), tmp_path)


def test_pixels_and_jobs_that_are_none_are_sentences() -> None:
    assert 4 < normalisation()[0] < 6
    with pytest.raises(CompositionError, match="describes no pixels"):
        DrawnImages(20.0, 1.0, 16.0)
    with pytest.raises(ExportError, match="There is no page for xor: there are such for digits-cnn"):
        page_of("xor", FullPrecision())


def test_no_page_shows_a_dash_where_there_is_nothing_yet() -> None:
    for path in PAGES.rglob("*.*"):
        assert "–" not in path.read_text(encoding="utf-8"), path.name
