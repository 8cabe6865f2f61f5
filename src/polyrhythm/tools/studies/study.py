"""Study files: which grids are measured, how often, and after whose study. `load_study` reads one, by its path or a shipped name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import msgspec

from polyrhythm.core.typed_files import beside, mistake
from polyrhythm.errors import CompositionError, WorkloadError, did_you_mean, nearest, unknown
from polyrhythm.tools.report.estimates import LEAST_REPETITIONS
from polyrhythm.tools.studies.grid import StudyGrid
from polyrhythm.tools.studies.message_grids import MessageGrid, VirtualMessageGrid
from polyrhythm.tools.studies.real_grid import RealGrid
from polyrhythm.tools.studies.storage_grid import StorageGrid
from polyrhythm.tools.studies.virtual_grid import VirtualGrid


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A study: `title`, the `paper` whose grid it has, `note` on what differs from it, and at least one table of factors.

    Every cell is measured in `repetitions`, five or more. `best` names factors of [real] or [virtual] whose best combination is reported,
    by the median of samples per second.
    """

    title: str
    paper: str = ""
    note: str = ""
    repetitions: int = LEAST_REPETITIONS
    best: tuple[str, ...] = ()
    real: RealGrid | None = None
    virtual: VirtualGrid | None = None
    messages: MessageGrid | None = None
    virtual_messages: VirtualMessageGrid | None = None
    storage: StorageGrid | None = None

    def grids(self) -> dict[str, StudyGrid]:
        """The tables of factors that it has, by name."""
        tables: dict[str, StudyGrid | None] = {
            "real": self.real,
            "virtual": self.virtual,
            "messages": self.messages,
            "virtual_messages": self.virtual_messages,
            "storage": self.storage,
        }
        return {name: grid for name, grid in tables.items() if grid is not None}

    def check(self) -> None:
        """Raise PolyrhythmErrors for a study that cannot be carried out."""
        if not self.grids():
            raise CompositionError("The study has no table of factors: give it [real], [virtual], [messages] or [storage].")
        if self.repetitions < LEAST_REPETITIONS:
            raise CompositionError(
                f"repetitions = {self.repetitions} are too few for an interval of the median: give {LEAST_REPETITIONS} or more."
            )
        for grid in self.grids().values():
            grid.check()
        known = {name for grid in self.grids().values() for cell in grid.cells() for name in cell}
        for name in self.best:
            if name not in known:
                raise unknown("factor of the study", name, sorted(known))


SHIPPED = files("polyrhythm.tools.studies") / "grids"


def shipped() -> list[str]:
    """The names of the studies that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in SHIPPED.iterdir() if file.name.endswith(".toml"))


def load_study(given: str) -> tuple[str, Study]:
    """The name and the study of a TOML file, or of a shipped name. A path in `job` is meant from the working directory.

    Raises UnknownNameError for what is neither, and WorkloadError or CompositionError for a file that is no study.
    """
    name = given.removesuffix(".toml")
    if given in shipped():
        content = (SHIPPED / f"{given}.toml").read_bytes()
    elif (file := Path(given)).suffix == ".toml":
        if not file.is_file():
            meant = did_you_mean([*beside(file), *nearest(name, shipped())])
            raise WorkloadError(f"There is no file {given}. " + (meant or f"Give the path of a study, or one of {', '.join(shipped())}."))
        name, content = file.stem, file.read_bytes()
    else:
        raise unknown("study", given, shipped())
    try:
        study = msgspec.toml.decode(content, type=Study)
    except msgspec.DecodeError as problem:
        raise CompositionError(
            f"{given} is no study: {mistake(problem, Study)}. docs/studies.md lists the tables and their keys."
        ) from None
    except UnicodeDecodeError:
        raise CompositionError(f"{given} is no study: it is not text.") from None
    study.check()
    return name, study


def every_shipped() -> Iterator[tuple[str, Study]]:
    """The shipped studies by name."""
    return map(load_study, shipped())
