"""The numbers of workers, networks and devices of a comparison, each of which may be several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.prepare import Typed, typed


@dataclass(frozen=True, slots=True)
class Variant:
    """One of them: what was typed, as if it alone had been; `label` is what it has that others have not."""

    label: str
    typed: Typed


def variants(job: str, arguments: Sequence[str] | None, counts: Sequence[int], where: RuntimeOptions) -> list[Variant]:
    """All combinations, in the order in which they were typed. Raises CompositionError for an empty one."""
    networks, devices = _several(where.network, "--network"), _several(where.device, "--device")
    found = []
    for network, device, count in product(networks, devices, counts or (None,)):
        named = [(network, networks), (device, devices), (None if count is None else f"{count} workers", counts)]
        label = ", ".join(each for each, among in named if each is not None and len(among) > 1)
        one = typed(job, arguments, Crew.of(count or 1), replace(where, network=network, device=device))
        found.append(Variant(label, replace(one, counts="" if count is None else str(count))))
    return found


def together(several: Sequence[Variant], where: RuntimeOptions) -> Typed:
    """What was typed for all of them."""
    first = several[0].typed
    counts = ",".join(dict.fromkeys(each.typed.counts for each in several if each.typed.counts))
    return replace(first, counts=counts, where=replace(first.where, network=where.network, device=where.device))


def _several(text: str | None, flag: str) -> list[str | None]:
    if text is None:
        return [None]
    found: list[str | None] = [each.strip() for each in text.split(",")]
    if "" in found:
        raise CompositionError(f"{flag} {text!r} has an empty name: write names with commas between.")
    return list(dict.fromkeys(found))
