"""Files that people write: missing ones, and fields that there are not, are told with what was perhaps meant."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from polyrhythm.cluster.site_file import load_jobs, load_site
from polyrhythm.core.typed_files import instead, read_typed
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import devices, network
from polyrhythm.serving.serving_files import read_models, read_site


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry."""

    workers: int = 1
    inner: dict[str, list[Entry]] = {}


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    """A file of entries."""

    jobs: list[Entry | None] = []


def read(path: Path) -> Listed:
    return read_typed(path, Listed, "JOBS file", "It has jobs.")


def test_a_file_in_toml_or_json_is_read(tmp_path: Path) -> None:
    (toml := tmp_path / "jobs.toml").write_text("[[jobs]]\nworkers = 2\n")
    (json := tmp_path / "jobs.json").write_text('{"jobs": [{"workers": 2}]}')
    assert read(toml) == read(json) == Listed([Entry(2)])


def test_of_a_file_that_is_not_there_those_beside_it_are_named(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").touch()
    with pytest.raises(CompositionError, match=r"there is no such file\. Did you mean '.*jobs\.toml'\?$"):
        read(tmp_path / "job.toml")
    with pytest.raises(CompositionError, match=r"there is no such file\. Give a file in TOML or JSON\.$"):
        read(tmp_path / "elsewhere" / "job.toml")
    with pytest.raises(CompositionError, match=r"cannot be read: Is a directory\. Give"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["[[jobs]]\nwokers = 2\n", "[[jobs]]\n[[jobs.inner.a]]\nwokers = 2\n"])
def test_a_field_that_there_is_not_is_told_with_the_one_that_is_near(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "jobs.toml").write_text(text)
    with pytest.raises(CompositionError, match=r"unknown field `wokers` - at .* \(did you mean 'workers'\?\)\. It has jobs\."):
        read(path)
    path.write_text("zzz = 1")
    with pytest.raises(CompositionError, match=r"unknown field `zzz`\. It has jobs\."):
        read(path)


@pytest.mark.parametrize(
    "reader", [load_site, load_jobs, lambda path: read_site(Path(path)), lambda path: read_models(Path(path)), devices.load, network.load]
)
def test_every_reader_of_such_files_names_the_file_that_was_meant(reader, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "written.json").touch()
    with pytest.raises(CompositionError, match=r"Did you mean '.*written\.json'\?"):
        reader(str(tmp_path / "writen.json"))


def test_a_folder_that_is_not_there_is_told_with_those_like_it(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    assert instead(tmp_path / "record", "give another.") == "give another."
    assert instead(tmp_path / "recrd", "give another.") == f"it is not there. Did you mean '{tmp_path / 'record'}'?"
    assert instead(tmp_path / "zzz", "give another.") == "it is not there. Give another."
