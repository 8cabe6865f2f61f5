"""What ranks in processes of their own compute with modules whose products are divided, compared with one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch_ranks import outcomes

from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.wavefront import Wavefront

from . import test_heads as heads
from . import test_locally_connected as local
from . import test_wavefront as wave
from .grids import Case, cube, gpt, of_symbols, summa, tesseract, trained
from .ranks import axes_of, close

RANKS, STEPS = 4, 2


def of_a_region(case: Case) -> Callable[[], None]:
    style, forward = replace(case.style, unit=4, groups={"*query_key_value": 3}), of_symbols(5, 6, 13)

    def law() -> None:
        found = trained(style.local(gpt(), "", Place(axes_of(case.sizes))), forward, STEPS)
        close(torch.stack(found), torch.stack(trained(gpt(), forward, STEPS)))

    return law


def of_heads() -> None:
    losses, _ = heads.trained(Place(axes_of({"tp": RANKS})), heads.megatron(), STEPS)
    close(losses, heads.trained(None, {}, STEPS)[0])


def of_a_wavefront(kind: str) -> Callable[[], None]:
    def law() -> None:
        found, _ = wave.trained(kind, Wavefront(), Place(axes_of({"layers": RANKS})), STEPS)
        close(found, wave.trained(kind, None, Place({}), STEPS)[0])

    return law


def of_places() -> None:
    close(local.trained(Place(axes_of({"h": 2, "w": 2})))[0], local.trained(None)[0])


LAWS = {"Heads": of_heads, "LocallyConnected": of_places} | {f"Wavefront of {kind}": of_a_wavefront(kind) for kind in wave.KINDS}
LAWS |= {str(case): of_a_region(case) for case in (summa(2, 2), summa(1, 4), tesseract(2, 1, 2), cube(2, 2, 1))}


def every_law(rank: int, ranks: int) -> dict[str, str]:
    """How each law was broken at this rank."""
    return outcomes(LAWS)
