"""Polyrhythm: train one PyTorch model with many workers that do not keep the same time, for real or in virtual time.

The root has what starts a run, what a run is given, and the packages of pieces: `pr.run`, `pr.Strategy`, `pr.codec.TopK`. Names are
imported when they are first used, so that `polyrhythm --help` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyrhythm import buffers as buffers
    from polyrhythm import cluster as cluster
    from polyrhythm import codec as codec
    from polyrhythm import consistency as consistency
    from polyrhythm import controllers as controllers
    from polyrhythm import errors as errors
    from polyrhythm import export as export
    from polyrhythm import groups as groups
    from polyrhythm import hardware as hardware
    from polyrhythm import launchers as launchers
    from polyrhythm import local_rules as local_rules
    from polyrhythm import loggers as loggers
    from polyrhythm import merge as merge
    from polyrhythm import parameters as parameters
    from polyrhythm import partition as partition
    from polyrhythm import serving as serving
    from polyrhythm import shuffle as shuffle
    from polyrhythm import sklearn as sklearn
    from polyrhythm import sources as sources
    from polyrhythm import systems as systems
    from polyrhythm import tables as tables
    from polyrhythm import topology as topology
    from polyrhythm.core.checkpoints.request import Checkpoints as Checkpoints
    from polyrhythm.core.kernel.crew import Crew as Crew
    from polyrhythm.core.processes import Processes as Processes
    from polyrhythm.core.simulator import ClosedForm as ClosedForm
    from polyrhythm.core.simulator import Instant as Instant
    from polyrhythm.core.simulator import Messages as Messages
    from polyrhythm.core.simulator import OneByOne as OneByOne
    from polyrhythm.core.simulator import SideBySide as SideBySide
    from polyrhythm.core.simulator import Simulator as Simulator
    from polyrhythm.core.strategy import Exchange as Exchange
    from polyrhythm.core.strategy import Hierarchical as Hierarchical
    from polyrhythm.core.strategy import Leaders as Leaders
    from polyrhythm.core.strategy import Strategy as Strategy
    from polyrhythm.core.strategy import Stripes as Stripes
    from polyrhythm.core.tables.table import Table as Table
    from polyrhythm.core.training.join import join as join
    from polyrhythm.core.training.result import Run as Run
    from polyrhythm.core.training.run import run as run
    from polyrhythm.core.training.worker import Worker as Worker
    from polyrhythm.errors import PolyrhythmError as PolyrhythmError
    from polyrhythm.export.predictor import Predictor as Predictor
    from polyrhythm.hardware.devices import Device as Device
    from polyrhythm.hardware.network import Network as Network
    from polyrhythm.partition.cut import Cut as Cut
    from polyrhythm.partition.mesh import Mesh as Mesh
    from polyrhythm.tools.layouts.explain import explain as explain
    from polyrhythm.tools.layouts.job import LayoutJob as LayoutJob
    from polyrhythm.tools.layouts.layout_plan import LayoutPlan as LayoutPlan
    from polyrhythm.tools.layouts.plan_layouts import plan_layouts as plan_layouts
    from polyrhythm.tools.layouts.short_runs import ShortRuns as ShortRuns
    from polyrhythm.tools.layouts.space import LayoutSpace as LayoutSpace
    from polyrhythm.tools.measuring.batch_size import largest_batch as largest_batch
    from polyrhythm.tools.measuring.timing import simulate_timing as simulate_timing
    from polyrhythm.tools.planner.answer import Plan as Plan
    from polyrhythm.tools.planner.objective import Prices as Prices
    from polyrhythm.tools.planner.plan import plan as plan
    from polyrhythm.tools.planner.table import plan_text as plan_text
    from polyrhythm.tools.recipes.recipe import lint_recipe as lint_recipe
    from polyrhythm.tools.recipes.recipe_check import check_recipe as check_recipe
    from polyrhythm.torch_programs.checking.check import check as check
    from polyrhythm.torch_programs.simulate import simulate as simulate
    from polyrhythm.workloads.load import load_workload as load_workload

_PACKAGES = (
    *("buffers", "cluster", "codec", "consistency", "controllers", "errors", "export", "groups", "hardware", "launchers", "local_rules"),
    *("loggers", "merge", "parameters", "partition", "serving", "shuffle", "sklearn", "sources", "systems", "tables", "topology"),
)
_PLACES = {
    "core.checkpoints.request": "Checkpoints",
    "core.kernel.crew": "Crew",
    "core.processes": "Processes",
    "core.simulator": "ClosedForm Instant Messages OneByOne SideBySide Simulator",
    "core.strategy": "Exchange Hierarchical Leaders Strategy Stripes",
    "core.tables.table": "Table",
    "core.training.join": "join",
    "core.training.result": "Run",
    "core.training.run": "run",
    "core.training.worker": "Worker",
    "errors": "PolyrhythmError",
    "export.predictor": "Predictor",
    "hardware.devices": "Device",
    "hardware.network": "Network",
    "partition.cut": "Cut",
    "partition.mesh": "Mesh",
    "tools.layouts.explain": "explain",
    "tools.layouts.job": "LayoutJob",
    "tools.layouts.layout_plan": "LayoutPlan",
    "tools.layouts.plan_layouts": "plan_layouts",
    "tools.layouts.short_runs": "ShortRuns",
    "tools.layouts.space": "LayoutSpace",
    "tools.measuring.batch_size": "largest_batch",
    "tools.measuring.timing": "simulate_timing",
    "tools.planner.answer": "Plan",
    "tools.planner.objective": "Prices",
    "tools.planner.plan": "plan",
    "tools.planner.table": "plan_text",
    "tools.recipes.recipe": "lint_recipe",
    "tools.recipes.recipe_check": "check_recipe",
    "torch_programs.checking.check": "check",
    "torch_programs.simulate": "simulate",
    "workloads.load": "load_workload",
}
_HOMES = {name: f"polyrhythm.{place}" for place, names in _PLACES.items() for name in names.split()}

__all__ = sorted([*_HOMES, *_PACKAGES])


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"polyrhythm.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'polyrhythm' has no attribute {name!r}{_remedy(name)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _remedy(name: str) -> str:
    """The place of a piece of that name, for someone who wrote `pr.TopK` for `pr.codec.TopK`."""
    if name.startswith("_"):
        return ""
    places = [f"pr.{package}.{name}" for package in _PACKAGES if hasattr(importlib.import_module(f"polyrhythm.{package}"), name)]
    return f": did you mean {' or '.join(places)}?" if places else ""


def __dir__() -> list[str]:
    return __all__
