"""Checks a program of torch.distributed against the recipe for data parallelism, in its first steps in virtual time.

The recipe is Horovod's, as supercomputing centres teach it: the learning rate follows the ranks, all begin with the weights of one, one of
them writes checkpoints, and each has samples of its own.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from polyrhythm.core.settings import whole_number
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.tensors import digest
from polyrhythm.errors import CompositionError, DeadlockError, PolyrhythmError
from polyrhythm.tools.recipes.saved_files import redirected
from polyrhythm.torch_programs.program import FunctionProgram, Main
from polyrhythm.torch_programs.program_run import ProgramRun
from polyrhythm.torch_programs.ranks import current
from polyrhythm.torch_programs.simulate import main_of

_STEPS = 40
_SHARDED = ".distcp"
"""Files of torch.distributed.checkpoint, of which each rank writes its own by design."""
_CLOSE = 1.01


class _EnoughStepsTaken(SystemExit):
    """Ends a rank that has taken all steps that are looked at."""


@dataclass(slots=True)
class _RankRecord:
    """What one rank did: its learning rate at each step, and before the first its samples and its weights."""

    rates: list[float] = field(default_factory=list)
    samples: str = ""
    batch: int = 0
    weights: str = ""
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    sharded: bool = False
    saved: str = ""


def check_script_recipe(program: str | Path | Callable[..., Any], *arguments: Any, ranks: int = 2) -> list[str]:
    """Run the first 40 steps of a data-parallel program on `ranks` ranks and on one: what is missing, as sentences that say what to do.

    `program` and its `arguments` are as for `pr.simulate`. Looks at the learning rate, which is to follow the ranks where each has as many
    samples as one alone; at weights before the first step; at files written by torch.save, which go to a temporary directory meanwhile;
    and at the samples of the first step. Programs whose ranks hold parts of a model, and those that do not run on one rank, are not
    checked: such weights, samples and files differ by design. Raises what the program raises before its first step.
    """
    if whole_number("ranks", ranks, "2 or more") < 2:
        raise CompositionError(f"ranks={ranks} leaves nothing to compare: give 2 or more.")
    main = main_of(program, arguments)
    together, error = _observed(main, ranks)
    first = together[0]
    if error is not None and not first.rates:
        raise error
    whole = _observed(main, 1)[0][0]
    if any(record.shapes != whole.shapes or record.sharded for record in together.values()):
        return []
    return [*_rate(first, whole, ranks), *_weights(together), *_files(together), *_samples(together)]


def _rate(first: _RankRecord, alone: _RankRecord, ranks: int) -> Iterator[str]:
    if alone.rates and first.batch == alone.batch and max(first.rates) < _CLOSE * max(alone.rates):
        yield (
            f"{ranks} ranks have {first.batch} samples each, as one alone has, and the learning rate is {max(first.rates):g} for both: a "
            f"step on {ranks} times the batch may be {ranks} times as long (Goyal et al., 2017), so multiply it by the number of ranks, "
            "with a warm-up, unless it was chosen for the batch of all."
        )


def _weights(together: dict[int, _RankRecord]) -> Iterator[str]:
    others = [rank for rank, record in together.items() if record.weights and record.weights != together[0].weights]
    if others:
        yield (
            f"Rank {others[0]} begins with other weights than rank 0: broadcast those of rank 0 before the first step, as "
            "DistributedDataParallel does, or draw them from the same seed on all ranks."
        )


def _files(together: dict[int, _RankRecord]) -> Iterator[str]:
    others = [(rank, record.saved) for rank, record in together.items() if rank and record.saved]
    if others:
        rank, file = others[0]
        yield f"Rank {rank} writes {file} with torch.save, as every rank would: write it `if dist.get_rank() == 0`."


def _samples(together: dict[int, _RankRecord]) -> Iterator[str]:
    for rank, record in together.items():
        if rank and record.samples and record.samples == together[0].samples:
            yield (
                f"Ranks 0 and {rank} train on the same samples: give the loader a DistributedSampler, or let each rank take its part of "
                "the batch."
            )
            return


def _observed(main: Main, ranks: int) -> tuple[dict[int, _RankRecord], PolyrhythmError | None]:
    """The records of all ranks, and what ended the run, unless enough was seen."""
    records = {rank: _RankRecord() for rank in range(ranks)}

    def here() -> _RankRecord | None:
        rank = current()
        return None if rank is None else records.get(rank.rank)

    def note(file: str) -> None:
        record = here()
        if record is not None and not file.endswith(_SHARDED):
            record.saved = record.saved or file

    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with _hooked(here), redirected(note):
            tried = ProgramRun(FunctionProgram(main), ranks, Simulator(network=Instant())).attempt()
    enough = all(len(record.rates) >= _STEPS for record in records.values())
    ended = tried.error is None or (enough and isinstance(tried.error, DeadlockError))
    return records, None if ended else tried.error


@contextmanager
def _hooked(here: Callable[[], _RankRecord | None]) -> Iterator[None]:
    """Have all models and optimizers noted by the record of the rank that is running."""

    def called(module: nn.Module, given: tuple[Any, ...]) -> None:
        record = here()
        inputs = [each for each in given if isinstance(each, Tensor)]
        if record is not None and not record.samples and inputs and any(True for _ in module.parameters()):
            record.samples = digest([("samples", inputs[0].detach())])
            record.batch = len(inputs[0]) if inputs[0].dim() else 0

    def stepping(optimizer: Optimizer, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        record = here()
        if record is None:
            return
        if not record.rates:
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            record.sharded = any(isinstance(each, DTensor) for each in parameters)
            record.shapes = [tuple(each.shape) for each in parameters]
            if not record.sharded:
                record.weights = digest((str(place), each.detach()) for place, each in enumerate(parameters))
        record.rates.append(float(optimizer.param_groups[0]["lr"]))
        if len(record.rates) >= _STEPS:
            raise _EnoughStepsTaken

    handles = [register_module_forward_pre_hook(called), register_optimizer_step_pre_hook(stepping)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
