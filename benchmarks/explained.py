"""Why some systems end above one process on chars-gpt at equal samples: the same training with one thing changed at a time.

    python benchmarks/explained.py --seed 100              # about 15 minutes on one core

Four virtual workers with batches of 4 beside one process with batches of 16, 640 steps, bits per character at the end:

- `onebit` and `single` under AdaGrad (the optimizer of 1-bit SGD's paper) at each of four learning rates, and under AdamW without
  momentum (beta1 = 0): is it the momentum behind the quantizer that costs?
- `single` with each gradient applied one step late: what is one step of delay worth, which `softsync` has?
- `strom` without its codec: what do asynchrony and local optimizers cost, and what the threshold?

Everything was fixed before the first run. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import polyrhythm as pr
from polyrhythm.codec import Identity
from polyrhythm.workloads.chars import CharsGpt, bits_per_character, corpus, windows
from polyrhythm.workloads.gpt import Gpt, GptSize

WORKERS, GLOBAL_BATCH = 4, 16
ADAGRAD_RATES = (0.005, 0.01, 0.02, 0.04)
MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def main() -> None:
    """Run all and print a line for each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=100)
    seed = parser.parse_args().seed
    print("| training | strategy | bits |\n|---|---|---|", flush=True)
    for name, train, strategies in _cases():
        for strategy in strategies:
            workers = 1 if strategy.name == "single" else WORKERS
            bound = partial(train, batch_size=GLOBAL_BATCH // workers)
            run = pr.run(bound, workers=workers, strategy=strategy, on=pr.Simulator(), seed=seed)
            print(f"| {name} | `{strategy.name}` | {run.final['bits']:.3f} |", flush=True)


def _cases() -> Iterable[tuple[str, Callable[..., None], list[pr.Strategy]]]:
    single, onebit, strom = (pr.systems.find(name) for name in ("single", "onebit", "strom"))
    uncompressed = replace(strom, name="strom without its codec", codec=Identity())
    yield "AdamW, 0.002", partial(train, _adamw(0.9)), [single, onebit, pr.systems.find("softsync"), strom, uncompressed]
    yield "AdamW with beta1 = 0, 0.002", partial(train, _adamw(0.0)), [single, onebit]
    yield "AdamW, 0.002, gradients one step late", partial(train, _adamw(0.9), late=True), [single]
    for rate in ADAGRAD_RATES:
        yield f"AdaGrad, {rate}", partial(train, partial(torch.optim.Adagrad, lr=rate)), [single, onebit]


def _adamw(beta1: float) -> MakeOptimizer:
    return partial(torch.optim.AdamW, lr=2e-3, weight_decay=0.01, betas=(beta1, 0.999))


def train(make_optimizer: MakeOptimizer, worker: pr.Worker, batch_size: int, late: bool = False) -> None:
    """chars-gpt with another optimizer; `late` applies each step's gradient at the next one."""
    settings, text = CharsGpt(), corpus()
    model: torch.nn.Module = Gpt(GptSize(text.vocabulary, settings.context, settings.layers, settings.width, settings.heads))
    model, optimizer = worker.attach(model, make_optimizer(model.parameters()))
    worker.evaluate(lambda model: {"bits": bits_per_character(model, text.validation, settings, worker.device)})
    before = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for x, y in worker.batches(windows(text.training, settings.context, settings.samples), batch_size=batch_size):
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()  # type: ignore[no-untyped-call]
        if late:
            for index, parameter in enumerate(model.parameters()):
                assert parameter.grad is not None
                before[index], parameter.grad = parameter.grad, before[index]
        optimizer.step()


if __name__ == "__main__":
    main()
