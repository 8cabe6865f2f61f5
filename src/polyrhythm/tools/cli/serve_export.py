"""The options `--export` and `--to` of `polyrhythm serve plan`: a plan as another server's configuration, and what to do with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.tools.cli.failures import notice
from polyrhythm.tools.cli.options import path_given

if TYPE_CHECKING:
    from polyrhythm.serving import PlanExport, ServingPlan
    from polyrhythm.serving.serving_files import ModelEntry

_NAMED = 6
"""So many written files are named."""

Export = Annotated[
    str | None, typer.Option("--export", metavar="triton|bentoml", help="Write the plan as that server's configuration; needs --to.")
]
To = Annotated[Path | None, typer.Option("--to", metavar="DIR", parser=path_given, help="The directory of the exported configuration.")]


@dataclass(frozen=True, slots=True)
class TypedExport:
    """The server whose configuration a plan becomes, and its directory."""

    export: Export = None
    to: To = None

    def opened(self) -> WantedExport | None:
        """It with the directory made; None if none was asked for. Raises PolyrhythmErrors for what cannot be written later."""
        from polyrhythm.serving import BentoExport, TritonExport
        from polyrhythm.tools.cli.prepare import directory

        known: Mapping[str, PlanExport] = {"triton": TritonExport(), "bentoml": BentoExport()}
        if self.export is None:
            if self.to is not None:
                raise CompositionError(f"--to {self.to} is the directory of --export: give --export triton or bentoml, or leave --to out.")
            return None
        if self.export not in known:
            raise unknown("server to export to", self.export, list(known))
        if self.to is None:
            raise CompositionError(f"--export {self.export} needs a directory: give --to DIR.")
        directory(self.to, option="--to")
        return WantedExport(self.export, known[self.export], self.to)


@dataclass(frozen=True, slots=True)
class WantedExport:
    """The configuration of the server `name` that is to be written to the directory `to`."""

    name: str
    exporter: PlanExport
    to: Path

    def write(self, made: ServingPlan, models: Iterable[ModelEntry]) -> None:
        """Write the files of a plan of `models`, and print which they are and what comes next."""
        from polyrhythm.serving.exporting import ExportedModels

        files = self.exporter.files(made)
        for name, text in files.items():
            file = self.to / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if not files:
            notice(f"nothing was written to {self.to} for {self.name}: no machine of the plan serves anything")
            return
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        notice(f"wrote to {self.to} for {self.name}: {', '.join(list(files)[:_NAMED])}{more}")
        emulated = {each.name for each in models if each.emulated}
        used = dict.fromkeys(slot.model for each in made.machines for slot in each.slots)
        parted = ExportedModels(tuple(name for name in used if name not in emulated), tuple(name for name in used if name in emulated))
        notice(self.exporter.next_step(self.to, parted))
