"""How fast codecs encode and decode a gradient, beside one core's memcpy of the same bytes.

    OMP_NUM_THREADS=1 python benchmarks/codecs.py [--elements 25000000] [--rounds 9] [--json FILE]

One thread. In each round every codec encodes and decodes once, and memory is copied (out of place, into memory that is there already)
before each of them: a ratio is that of two times next to each other, so that a busy machine spoils both. Encoding includes what the codec
computes of its own packet, `sent`, which error feedback needs. Freed memory is kept, as workers keep it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec import AdaptiveThreshold, Cast, GapCoded, OneBit, Threshold, TopK, TwoBit, UnitSigns
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.processes.system.allocator import keep_memory
from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.tensors import Layout

WIDTH = 2500
"""Elements of a row of the gradient."""
CODECS: dict[str, tuple[Callable[[], PacketCodec], float | None]] = {
    "Cast(bfloat16)": (lambda: Cast(torch.bfloat16), 1 / 2),
    "Cast(float16)": (lambda: Cast(torch.float16), 1 / 2),
    "OneBit()": (OneBit, 1 / 10),
    "UnitSigns(0)": (lambda: UnitSigns(0.0), 1 / 10),
    "TwoBit(2)": (lambda: TwoBit(2.0), 1 / 10),
    "Threshold(2.6)": (lambda: Threshold(2.6), 1 / 10),
    "AdaptiveThreshold(2.6)": (lambda: AdaptiveThreshold(2.6), None),
    "GapCoded(Threshold(2.6))": (lambda: GapCoded(Threshold(2.6)), None),
    "TopK(0.01)": (lambda: TopK(0.01), 1 / 20),
}
"""Of normal numbers one in a hundred is above 2.6 in size, and 4.6 % above 2. With the least ratio that is asked for."""


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(elements: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """For each codec, what part of memcpy's speed encoding and decoding had in each round."""
    layout = Layout(("w",), ((elements // WIDTH, WIDTH),))
    value = torch.randn(layout.numel, generator=torch.Generator().manual_seed(0))
    source, target = value.numpy(), np.empty(layout.numel, dtype=np.float32)
    context = ExchangeContext(Group.of_workers(1, 0), rng.stream(0, "benchmark"))
    ratios: dict[str, dict[str, list[float]]] = {name: {"encode": [], "decode": [], "copy": []} for name in CODECS}
    for number in range(rounds + 1):
        for name, (make, _) in CODECS.items():
            codec = make()
            state, packets = codec.initial(layout), list[tuple[Tensor, ...]]()
            copy = min(seconds(lambda: np.copyto(target, source)) for _ in range(2))
            encode = seconds(
                lambda codec=codec, state=state, packets=packets: packets.append(codec.encode(value, layout, state, context).packet)
            )
            decode = seconds(lambda codec=codec, packets=packets: codec.decode(packets[0], layout))
            if number:  # the first warms memory and caches up
                ratios[name]["copy"].append(copy)
                ratios[name]["encode"].append(copy / encode)
                ratios[name]["decode"].append(copy / decode)
    return ratios


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    measured = measure(options.elements, options.rounds)
    copies = [seconds for each in measured.values() for seconds in each["copy"]]
    low, middle, high = (1e3 * each(copies) for each in (min, statistics.median, max))
    print(f"{options.elements:,} float32, memcpy {middle:.1f} ms ({low:.1f} to {high:.1f})\n")
    print("| codec | encode, part of memcpy's speed | decode | asked for |\n|---|---|---|---|")
    for name, (_, least) in CODECS.items():
        columns = [_shown(measured[name][what]) for what in ("encode", "decode")]
        print(f"| `{name}` | {' | '.join(columns)} | {'' if least is None else f'{least:.2f}'} |")
    if options.json is not None:
        options.json.write_text(json.dumps({"elements": options.elements, "ratios": measured}, indent=1), encoding="utf-8")


def _shown(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
