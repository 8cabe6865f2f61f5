"""Writes docs/named-things.md: every named thing of both lists, and the other reproductions, with place, verdict and command.

python reproductions/generate_named_things.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from polyrhythm.systems.published_verdicts import shown, verdicts
from polyrhythm_reproductions.reading.named_things import NamedThing, data_parallel_systems, parallelism
from polyrhythm_reproductions.registry import REPRODUCTIONS

PAGE = Path(__file__).parents[1] / "docs" / "named-things.md"

HEAD = """# Named things

*This page is written by `python reproductions/generate_named_things.py` from the lists in
`reproductions/src/polyrhythm_reproductions/reading`.*

Papers, systems and techniques by name: where each is in the code, what became of its claims here, and a command for it. Verdicts are
those of [the reproductions](reproductions/index.md): "2 of 3 claims" are those that can be tested here. A thing without a verdict has no
reproduction of its own.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Partitioning, high-performance computing, frameworks", ""]
    lines += _table(parallelism())
    lines += ["", "## Data-parallel systems", ""]
    lines += _table(data_parallel_systems())
    lines += ["", "## Other reproductions", ""]
    lines += _table([_alone(name) for name in others()])
    return "\n".join(lines) + "\n"


def others() -> list[str]:
    """The reproductions that no row of a list names."""
    named = {name for thing in (*parallelism(), *data_parallel_systems()) for name in thing.reproductions}
    return [name for name in REPRODUCTIONS if name not in named]


def _table(things: Sequence[NamedThing]) -> Iterator[str]:
    yield "| | named thing | where | verdict | command |"
    yield "|---|---|---|---|---|"
    for number, thing in enumerate(things, 1):
        note = f" {thing.note}" if thing.note else ""
        commands = "<br>".join(f"`{command}`" for command in thing.all_commands) or "–"
        yield f"| {thing.row or number} | {thing.name} | {_where(thing)}{note} | {_verdict(thing)} | {commands} |"


def _where(thing: NamedThing) -> str:
    systems = [f"[`{name}`](systems.md#{name})" for name in thing.systems]
    return ", ".join([*systems, *map(_place, thing.places)]) + ("." if thing.note and (systems or thing.places) else "")


def _place(place: str) -> str:
    if place.startswith("docs/") and place.endswith(".md"):
        return f"[{Path(place).stem}]({place.removeprefix('docs/')})"
    return f"`{place.replace(':', '.')}`"


def _verdict(thing: NamedThing) -> str:
    known = {each.reproduction: shown(each) for each in verdicts()}
    links = [
        f"[{name}](reproductions/{name}.md): {known[name]}" if name in known else f"{name}: not run yet" for name in thing.reproductions
    ]
    return "; ".join(links) or "–"


def _alone(name: str) -> NamedThing:
    found = REPRODUCTIONS[name]
    return NamedThing(found.paper, systems=list(found.systems), reproductions=[name])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
