"""The page docs/taxonomy.md, from the catalogue and from each system's descriptor. `generate_tables.py` writes it."""

from __future__ import annotations

import importlib
from pathlib import Path

import polyrhythm
from polyrhythm.core.strategy.descriptor import StrategyDescriptor, describe
from polyrhythm.systems import SYSTEMS, find

PAGE = Path(__file__).parent / "taxonomy.md"

PILLARS = {
    "Infrastructure": ("hardware", "launchers", "process_group", "torch_programs", "integrations", "export"),
    "Parallelization of training": (
        *("systems", "consistency", "topology", "codec", "merge", "local_rules", "controllers"),
        *("groups", "parameters", "buffers", "partition", "sklearn"),
    ),
    "Scheduling of resources": ("cluster", "serving"),
    "Management of data": ("sources", "shuffle", "tables", "workloads", "loggers"),
}
"""The four pillars of Mayer and Jacobsen (2020), each with the packages of the library that stand in it."""

ELEMENTS = {
    "tensors": ("codec", "parameters", "partition", "process_group", "tables", "topology"),
    "gradients": ("buffers", "consistency", "groups", "local_rules", "merge", "systems"),
    "acceleration": (
        *("cluster", "controllers", "export", "hardware", "launchers", "partition", "process_group", "serving"),
        *("topology", "torch_programs"),
    ),
    "modules": ("export", "integrations", "loggers", "shuffle", "sklearn", "sources", "workloads"),
}
"""The four elements of a library for deep learning: arrays, derivatives, fast hardware, and ready parts; a package serves one or more."""

NO_PIECES = ("core", "errors", "tools")
"""The framework, its errors and the products: they belong to no pillar by themselves."""

EQUAL = {
    frozenset({"direct", "yadan"}): (
        "Yadan et al. exchange among the GPUs of one machine as `direct` does; the half of their grid that divides the model is a mesh "
        "([models in parts](guide/partition.md)), and no part of a strategy."
    ),
    frozenset({"tree", "parallel-sgd", "firecaffe"}): (
        "Both papers sum gradients over a binary tree, which is what `tree` is; they differ in what they say about it: costs in the one, "
        "scaling and batch sizes in the other."
    ),
    frozenset(
        {"easgd", "deepspark"}
    ): "DeepSpark carries elastic averaging out on Spark; its exchanger without locks is the asynchrony of EASGD.",
    frozenset({"hogwild", "elephas-hogwild"}): "The mode `hogwild` of Elephas is Hogwild!, with its name.",
}
"""Systems with the same descriptor, and why there are several."""

HEAD = """# Taxonomy

*This page is written by `make docs-tables` from the pieces of the code.*

Where the library, its packages and its systems stand in the taxonomies of the field: the four pillars of Mayer and Jacobsen (2020), the
four elements of a library for deep learning, the axes of Langer et al. (2020), and those of Ben-Nun and Hoefler (2019).

Every strategy here parallelizes over data. How a model is divided as well is another axis, the [mesh](guide/partition.md), which is
combined with any of them; and which job runs where is [scheduling](guide/scheduling.md).
"""

AXES = """## Systems by axes

*Optimization* is centralized where one model takes the steps, on gradients, and decentralized where each worker takes its own steps and
changes or weights are exchanged (Langer et al., section 3.2). *Scheduling* is synchronous, bounded, or asynchronous (3.3); "late"
counts the steps by which a result comes later. *Parameters* says where the weights are held, *result* whether all workers end with the
same (Ben-Nun and Hoefler, section 7). Systems of several levels, or with other exchanges for some parameters, have several words, the
outermost last.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Packages", "", "| package | pillar | elements | members |", "|---|---|---|---|"]
    lines += [
        f"| `polyrhythm.{package}` | {_where(PILLARS, package)} | {_where(ELEMENTS, package)} | {_members(package)} |"
        for package in packages()
    ]
    lines += [
        "",
        AXES,
        "| system | optimization | scheduling | communication | payload | compression | parameters | result |",
        "|" + "---|" * 8,
    ]
    lines += [_row(name, describe(find(name))) for name in SYSTEMS]
    lines += ["", "## Systems with equal descriptors", "", "With their pieces and settings, all other descriptors are different.", ""]
    lines += [f"- {', '.join(f'`{name}`' for name in SYSTEMS if name in names)}: {why}" for names, why in EQUAL.items()]
    return "\n".join(lines) + "\n"


def packages() -> list[str]:
    """The packages at the root of the library that have a place in the taxonomy."""
    root = Path(polyrhythm.__file__).parent
    found = sorted(path.parent.name for path in root.glob("*/__init__.py"))
    return [name for name in found if name not in NO_PIECES]


def equal_systems() -> set[frozenset[str]]:
    """The groups of systems that have the same descriptor."""
    groups: dict[StrategyDescriptor, set[str]] = {}
    for name in SYSTEMS:
        groups.setdefault(describe(find(name)), set()).add(name)
    return {frozenset(names) for names in groups.values() if len(names) > 1}


def _where(table: dict[str, tuple[str, ...]], package: str) -> str:
    return ", ".join(name for name, packages in table.items() if package in packages)


def _members(package: str) -> str:
    module = importlib.import_module(f"polyrhythm.{package}")
    members = getattr(module, "MEMBERS", ())
    if package == "systems":
        return f"{len(SYSTEMS)} systems, below"
    if not members:
        return (module.__doc__ or "").split("\n\n")[0].split(". ")[0].replace("\n", " ").rstrip(".").replace("|", "\\|")
    return ", ".join(f"`{name}`" for name in dict.fromkeys(type(member).__name__ for member in members))


def _row(name: str, found: StrategyDescriptor) -> str:
    communication, compression = (
        ", ".join(f"`{word}`" for word in words.split("; ")) for words in (found.communication, found.compression)
    )
    cells = (found.optimization, found.scheduling, communication, found.payload, compression, found.parameters, found.result)
    return f"| [`{name}`](systems.md#{name}) | {' | '.join(cells)} |"


def _quoted(words: str) -> str:
    return ", ".join(f"`{word}`" for word in words.split("; "))
