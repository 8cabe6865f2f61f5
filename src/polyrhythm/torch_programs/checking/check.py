"""`check`: two steps of a program of torch.distributed beside one process, before days of training. `polyrhythm check` calls it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from polyrhythm.core.settings import whole_number
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.errors import CompositionError, DeadlockError
from polyrhythm.torch_programs.checking import accumulation, batches, beside_twin, kinds, norms, randomness, replicas
from polyrhythm.torch_programs.checking.evidence import LayoutEvidence, relative
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.functions import functions_watched
from polyrhythm.torch_programs.checking.moved import ReductionOrder, seen_collectives
from polyrhythm.torch_programs.checking.places import places_beside
from polyrhythm.torch_programs.checking.seen import Sight
from polyrhythm.torch_programs.checking.watch import RankWatches, models_watched
from polyrhythm.torch_programs.program import FunctionProgram, Main
from polyrhythm.torch_programs.program_run import ProgramRun
from polyrhythm.torch_programs.ranks import current
from polyrhythm.torch_programs.simulate import main_of

_DETECTORS = (
    *(batches.skipped, batches.same_data, batches.labels, randomness.dropout, kinds.claims, kinds.partials, kinds.types),
    *(accumulation.scaled_twice, accumulation.stale, norms.clipped, replicas.equal, beside_twin.beside),
)
"""Those that know a cause by itself come before those that see consequences."""


@dataclass(slots=True)
class Checked:
    """What a check found, and on what it rests: notes say what could not be compared; of each step the norms of the gradients of the layout
    and of the twin, and the relative difference that rounding explains; the kinds of what each line's collectives move."""

    findings: list[SilentError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    norms: list[tuple[float, float, float]] = field(default_factory=list)
    collectives: list[dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a program is run to be seen."""

    steps: int
    order: ReductionOrder = ReductionOrder()  # noqa: RUF009 (a frozen value)
    dropout: bool = True
    times: int = 1
    noise: bool = False


def check(
    program: str | Path | Callable[..., Any],
    *arguments: Any,
    ranks: int = 2,
    twin: Callable[[], Any] | None = None,
    steps: int = 2,
    orders: int = 2,
) -> Checked:
    """Run the first steps of a program of torch.distributed on `ranks` ranks in virtual time, beside one process: silent errors.

    `program` and its `arguments` are as for `pr.simulate`. The twin is the same program with one rank, or the function `twin`. What
    rounding may change is measured in `orders` runs that reduce in other orders. Raises PolyrhythmErrors for arguments that cannot be used.

    Examples:
        >>> import torch, torch.distributed as dist
        >>> def main():
        ...     dist.init_process_group("gloo")
        ...     torch.manual_seed(0)
        ...     model = torch.nn.Linear(4, 2)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     x = torch.randn(8, 4).chunk(dist.get_world_size())[dist.get_rank()]
        ...     model(x).square().mean().backward()
        ...     optimizer.step()
        >>> [finding.cause for finding in check(main).findings]
        ['not-reduced']
    """
    if whole_number("ranks", ranks, "2 or more") < 2:
        raise CompositionError(f"ranks={ranks} leaves nothing to compare: give 2 or more.")
    if whole_number("steps", steps, "1 or more") < 1:
        raise CompositionError(f"steps={steps} is no number of steps: give 1 or more.")
    main = main_of(program, arguments)
    layout = _see(main, ranks, _Way(steps))
    if layout.error is not None and not layout.steps:
        raise layout.error
    checked, alone = Checked(), main if twin is None else main_of(twin, ())
    evidence = _beside(main, alone, layout, _Way(steps), ranks, orders, checked)
    if layout.error is not None:
        checked.notes.append(f"The program failed after {layout.steps} steps: {str(layout.error).splitlines()[0]}")
    if not layout.steps:
        checked.notes.append("No optimizer of torch.optim has taken a step, so that only collectives and DTensors were looked at.")
    for detector in _DETECTORS:
        checked.findings += [each for each in detector(evidence) if each.cause != "differs" or not checked.findings]
    checked.collectives = kinds.moved_kinds(layout)
    return checked


def _beside(main: Main, alone: Main, layout: Sight, way: _Way, ranks: int, orders: int, checked: Checked) -> LayoutEvidence:
    """The evidence, with a twin that has the same samples if there can be one."""
    twin, way = _twin(alone, layout, way, checked, alone is not main)
    evidence = LayoutEvidence(layout, twin, places_beside(layout, twin))
    if twin is None:
        return evidence
    if any(evidence.places.strange.values()):
        rank, names = next(iter(evidence.places.strange.items()))
        checked.notes.append(
            f"{names[0]} begins with other values on rank {rank} than in one process, so that gradients are not compared: draw the "
            "whole model's weights on every rank, or give --twin."
        )
        return evidence
    if any(held.kind.startswith("BatchNorm") for seen in layout.ranks.values() for held in seen.parameters.values()):
        checked.notes.append(
            "Each rank's batch norm has the statistics of its own samples, so that gradients are not those of one process."
        )
        return evidence
    if any(seen.draws for sight in (layout, twin) for seen in sight.ranks.values()):
        way = _Way(way.steps, dropout=False, times=way.times)
        calm = _Way(way.steps, dropout=False)
        evidence.pair = _see(main, ranks, calm), _see(alone, 1, way)
        checked.notes.append("Gradients are compared with those of one process without dropout, whose masks differ by nature.")
    else:
        calm, evidence.pair = _Way(way.steps), (layout, twin)
    steps = min(layout.steps, twin.steps)
    if not all(_same(evidence.pair[0], evidence.pair[1], step) for step in range(steps)):
        checked.notes.append("One process has other samples than the ranks together, so that gradients are not compared: give --twin.")
        evidence.pair = None
        return evidence
    _measure(evidence, main, alone, calm, way, ranks, orders)
    for step in range(steps):
        ours, theirs = (beside_twin.wholes(evidence, evidence.pair[0], step), beside_twin.of_twin(evidence, evidence.pair[1], step))
        most = max((evidence.tolerance(step, key) for key in ours), default=0.0)
        both = [{key: each[key] for key in ours.keys() & theirs.keys()} for each in (ours, theirs)]
        checked.norms.append((beside_twin.norm(both[0]), beside_twin.norm(both[1]), most))
    return evidence


def _twin(alone: Main, layout: Sight, way: _Way, checked: Checked, given: bool) -> tuple[Sight | None, _Way]:
    """The twin, and how it was run: with loaders that give as many samples as those of all ranks together."""
    way = _Way(way.steps + 2)
    twin = _see(alone, 1, way)
    if twin.error is not None and not twin.steps:
        if given:
            raise twin.error
        reason = str(twin.error).splitlines()[0]
        checked.notes.append(f"There is no twin, since the program does not run with one rank ({reason}): give --twin.")
        return None, way
    ours, theirs = (batches.elements(each, 0).numel() if each.steps else 0 for each in (layout, twin))
    if theirs and ours > theirs and ours % theirs == 0:
        larger = _Way(way.steps, times=ours // theirs)
        again = _see(alone, 1, larger)
        if again.steps and batches.elements(again, 0).numel() == ours:
            return again, larger
    return twin, way


def _same(layout: Sight, twin: Sight, step: int) -> bool:
    ours, theirs = batches.elements(layout, step), batches.elements(twin, step)
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)  # a model's output may be another's input


def _measure(evidence: LayoutEvidence, main: Main, alone: Main, calm: _Way, way: _Way, ranks: int, orders: int) -> None:
    """What rounding changes: in the layout by other orders of reductions, in the twin by noise in the last bits of gradients."""
    assert evidence.pair is not None
    layout, twin = evidence.pair
    others = [_see(main, ranks, _Way(calm.steps, ReductionOrder(seed), calm.dropout)) for seed in range(orders)]
    shaken = _see(alone, 1, _Way(way.steps, dropout=way.dropout, times=way.times, noise=True)) if orders else Sight()
    for step in range(min(layout.steps, twin.steps)):
        ours, theirs = beside_twin.wholes(evidence, layout, step), beside_twin.of_twin(evidence, twin, step)
        least = evidence.least(theirs)
        pairs = [(ours, beside_twin.wholes(evidence, other, step)) for other in others if step < other.steps]
        pairs += [(theirs, beside_twin.of_twin(evidence, shaken, step))] if step < shaken.steps else []
        for base, other in pairs:
            for key in base.keys() & other.keys():
                spread = relative(base[key] - other[key], base[key], least)
                evidence.spreads[step, key] = max(spread, evidence.spreads.get((step, key), 0.0))


def _see(main: Main, ranks: int, way: _Way) -> Sight:
    """Run it and see; what it prints is not shown."""
    sight = Sight()
    watches = RankWatches(sight, way.steps, way.noise)

    def observed() -> None:
        rank, watch = current(), watches.here()
        assert rank is not None
        assert watch is not None
        rank.desk.collectives = seen_collectives(watch.seen, way.order)
        main()

    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with models_watched(watches), functions_watched(watches, way.dropout, way.times):
            tried = ProgramRun(FunctionProgram(observed), ranks, Simulator(network=Instant())).attempt()
    ended = [seen.enough or len(seen.steps) >= way.steps or not seen.steps for seen in sight.ranks.values()]
    finished = any(seen.enough for seen in sight.ranks.values()) and all(ended)
    sight.error = None if isinstance(tried.error, DeadlockError) and finished else tried.error
    return sight
