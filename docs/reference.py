"""Hooks of MkDocs: the pages of the API reference, made of the package's public names, and links to files outside docs/.

What `polyrhythm/__init__.py` exports and the modules of `polyrhythm/core/protocols` and `polyrhythm/systems` appear without an edit here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polyrhythm

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "polyrhythm"

PAGES = {
    "running": (
        "Running",
        "What starts a run, and what a training function is given.",
        "core.training.run core.training.join core.training.worker core.kernel.crew core.checkpoints.request "
        "tools.recipes.recipe tools.recipes.recipe_check tools.measuring.batch_size core.processes",
    ),
    "cluster": ("Cluster", "Which job runs where, and simulations of many jobs.", "cluster"),
    "launchers": ("Launchers", "What places, starts and restarts the processes of a run on a cluster.", "launchers"),
    "simulator": (
        "Simulator and hardware",
        "Virtual time, and the networks, devices and faults that it simulates.",
        "core.simulator torch_programs.simulate torch_programs.checking.check tools.measuring.timing "
        "hardware.devices hardware.network hardware",
    ),
    "planning": (
        "Planning",
        "Which way of training suits a job and machines.",
        "tools.planner.plan tools.planner.answer tools.planner.objective tools.planner.table "
        "tools.layouts.plan_layouts tools.layouts.job tools.layouts.space tools.layouts.short_runs tools.layouts.layout_plan",
    ),
    "strategy": (
        "Strategy",
        "The composition of exchanges, selections of parameters, groups of workers, shuffles and buffers.",
        "core.strategy parameters groups shuffle buffers",
    ),
    "codecs": ("Codecs", "In which form a payload is sent.", "codec"),
    "topologies": ("Topologies", "Who exchanges with whom.", "topology"),
    "controllers": ("Controllers", "What a run adapts while it is under way.", "controllers"),
    "consistencies": ("Consistencies", "When a worker exchanges, and whether it waits.", "consistency"),
    "merges": ("Merges", "What the aggregated payload does to the model.", "merge"),
    "local": ("Local steps", "What a worker does of its own accord between two exchanges.", "local_rules"),
    "partition": (
        "Partitioning",
        "What each worker holds of a model, on a mesh.",
        "partition partition.cut partition.mesh tools.layouts.explain tools.layouts.explanation",
    ),
    "serving": ("Serving", "Models within their latency objectives: plans, batches, routes and admission.", "serving"),
    "export": ("Models that leave", "Files for other runtimes, on edge devices and in browsers.", "export.predictor export"),
    "estimators": ("Estimators", "Estimators of scikit-learn whose fit is a run.", "sklearn"),
    "sources": ("Sources of data", "Data that divide themselves among workers.", "sources"),
    "loggers": ("Loggers", "Where the metrics of a run go, besides its record.", "loggers"),
    "tables": ("Tables", "Numbers that workers share by rows.", "core.tables.table tables"),
    "workloads": ("Workloads", "Bundled training functions.", "workloads.load"),
    "results": ("Results and errors", "What a run returns, and what it raises or warns of.", "core.training.result errors"),
}
"""Page: its title, its first sentence, and the modules whose public names it lists."""

STUDIES = (
    *("tools.studies.study", "tools.studies.run_study", "tools.studies.real_grid", "tools.studies.virtual_grid"),
    *("tools.scaling.power_law", "tools.scaling.sweep", "tools.recipes.script_recipe"),
)
"""Modules that are shown whole: commands use them, and the root has few names."""

COPIES = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that lie beside docs/ in the repository."""

_OPTIONS = {"Worker": "    options:\n      inherited_members: true\n"}
"""Options of single names."""
_HIDDEN = "".join(f"      {option}\n" for option in ("show_root_heading: false", "show_root_toc_entry: false", "heading_level: 3"))
"""Options of a module whose heading the page writes itself."""


def public_names(module: str) -> list[str]:
    """The public names that live in `module`, which is below `polyrhythm`: of the root, or of a package that the root has."""
    own = sorted(name for name, home in polyrhythm._HOMES.items() if home == f"polyrhythm.{module}")
    if module not in polyrhythm._PACKAGES:
        return own
    package = importlib.import_module(f"polyrhythm.{module}")
    there = (name for name in sorted(package.__all__) if name not in polyrhythm._HOMES and callable(getattr(package, name)))
    return own + [f"{module}.{name}" for name in there]


def pages() -> Iterator[tuple[str, str]]:
    """Each page of the reference: its place below docs/, and its Markdown."""
    for page, (title, about, modules) in PAGES.items():
        names = [name for module in modules.split() for name in public_names(module)]
        yield (
            f"api/{page}.md",
            f"# {title}\n\n{about}\n\n" + "".join(f"::: polyrhythm.{name}\n{_OPTIONS.get(name, '')}\n" for name in names),
        )
    yield "api/systems.md", _of_modules("Systems", "Published systems, as functions that return a `Strategy`.", "systems")
    blocks = [f"## {module}\n\n::: polyrhythm.{module}\n    options:\n{_HIDDEN}" for module in STUDIES]
    yield "api/studies.md", "# Studies\n\nGrids of factors, scaling laws, and what scripts lack.\n\n" + "\n".join(blocks)
    yield (
        "api/protocols.md",
        _of_modules("Protocols", "What a piece must have, as protocols.", "core.protocols"),
    )


def _of_modules(title: str, about: str, package: str) -> str:
    modules = sorted(path.stem for path in PACKAGE.joinpath(*package.split(".")).glob("*.py") if path.stem != "__init__")
    blocks = [f"## {module}\n\n::: polyrhythm.{package}.{module}\n    options:\n{_HIDDEN}" for module in modules]
    return f"# {title}\n\n{about}\n\n" + "\n".join(blocks)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every decision into the navigation, in alphabetical order."""
    decisions = [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    config.nav = [{"Decisions": decisions} if "Decisions" in entry else entry for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference, and the results of the benchmarks, to which pages link."""
    from mkdocs.structure.files import File  # here, so that the tests can read the list of pages without MkDocs

    for place, text in pages():
        files.append(File.generated(config, place, content=text))
    for place, name in COPIES.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        files.append(File.generated(config, f"benchmarks/results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files that lie beside docs/ in the repository lead to their copies in the site."""
    markdown = markdown.replace("](../benchmarks/results/", "](benchmarks/results/")
    if page.file.src_uri in COPIES:
        markdown = markdown.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changes.md)")
    return markdown
