"""What users do to a model and an optimizer that are attached, each as a training function that says whether it came out right.

`python tests/training/user_writes.py [case,…|all] [system,…|all] [simulator|processes]` prints the matrix of systems and cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, str(Path(__file__).parents[1] / "strategy"))

from toy import data, network

from polyrhythm import systems
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError

BOUND = 0.05
LOADED = 99.94
EPOCHS = 5
RUNTIMES: dict[str, Callable[[], Runtime]] = {"simulator": lambda: Simulator(network=Instant()), "processes": Processes}

After = Callable[[nn.Module, int], None]


def nothing(model: nn.Module, step: int) -> None:
    """Between steps nothing is done."""


def loop(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, after: After = nothing) -> int:
    """The usual loop, with something `after` each step; how many there were."""
    own = worker.variables(steps=0)
    for _ in range(EPOCHS):
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            own.steps += 1
            after(model, own.steps)
    return int(own.steps)


def attached(worker: Any, rate: float = 0.1, momentum: float = 0.0) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small model with SGD."""
    model = network()
    return worker.attach(model, torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum))  # type: ignore[no-any-return]


def load(model: nn.Module) -> None:
    """All weights of a saved model."""
    model.load_state_dict({name: torch.full_like(value, LOADED) for name, value in model.state_dict().items()})


def is_loaded(weights: dict[str, Tensor]) -> bool:
    """The rate is next to nothing, so the weights are those that were loaded."""
    return all((value - LOADED).abs().max() < 0.05 for value in weights.values())


def is_bounded(weights: dict[str, Tensor]) -> bool:
    """Within the bounds, and trained."""
    flat = torch.cat([value.reshape(-1) for value in weights.values()])
    return bool(flat.abs().max() <= BOUND + 1e-6 and flat.std() > BOUND / 20)


def finite(weights: dict[str, Tensor]) -> bool:
    """Whatever they are."""
    return all(bool(value.isfinite().all()) for value in weights.values())


@dataclass(frozen=True)
class Case:
    """A training function, and what its final weights must be where it is not refused."""

    train: Callable[[Any], None]
    right: Callable[[dict[str, Tensor]], bool] = finite


CASES: dict[str, Case] = {}


def case(right: Callable[[dict[str, Tensor]], bool] = finite) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Add a training function to the cases."""

    def add(train: Callable[[Any], None]) -> Callable[[Any], None]:
        CASES[train.__name__] = Case(train, right)
        return train

    return add


@case(is_loaded)
def loaded_before_the_first_step(worker: Any) -> None:
    model, optimizer = attached(worker, 1e-9)
    load(model)
    loop(worker, model, optimizer)


@case(is_loaded)
def loaded_in_mid_training(worker: Any) -> None:
    model, optimizer = attached(worker, 1e-9)
    loop(worker, model, optimizer, lambda held, step: load(held) if step == 4 else None)


@case(lambda weights: bool(((weights["2.weight"] - 50).abs() < 0.05).all()))
def a_fresh_head(worker: Any) -> None:
    def renew(model: Any, step: int) -> None:
        if step == 2:
            model[-1].weight.data.fill_(50.0)

    model, optimizer = attached(worker, 1e-9)
    loop(worker, model, optimizer, renew)


@case(is_bounded)
def clipped_after_each_step(worker: Any) -> None:
    def clip(model: nn.Module, step: int) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-BOUND, BOUND)

    loop(worker, *attached(worker), clip)


@case(is_bounded)
def clipped_through_data(worker: Any) -> None:
    def clip(model: nn.Module, step: int) -> None:
        for parameter in model.parameters():
            parameter.data.clamp_(-BOUND, BOUND)

    loop(worker, *attached(worker), clip)


@case(lambda weights: not weights["0.weight"][::2].any())
def masked_in_a_step_hook(worker: Any) -> None:
    model, optimizer = attached(worker)

    def prune(*_: Any) -> None:
        with torch.no_grad():
            model[0].weight[::2] = 0.0  # type: ignore[index,union-attr,operator]

    optimizer.register_step_post_hook(prune)
    loop(worker, model, optimizer)


@case(is_loaded)
def loaded_after_the_last_step(worker: Any) -> None:
    model, optimizer = attached(worker, 1e-9)
    loop(worker, model, optimizer)
    load(model)


@case(is_loaded)
def loaded_after_finishing(worker: Any) -> None:
    model, optimizer = attached(worker, 1e-9)
    loop(worker, model, optimizer)
    worker.finish()
    load(model)


@case()
def an_average_put_there_for_evaluating(worker: Any) -> None:
    model, optimizer = attached(worker)

    def evaluate(held: nn.Module, step: int) -> None:
        kept = {name: value.clone() for name, value in held.state_dict().items()}
        load(held)
        held.load_state_dict(kept)

    loop(worker, model, optimizer, evaluate)


@case(is_bounded)
def bounded_by_constrain(worker: Any) -> None:
    def clip(model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.clamp_(-BOUND, BOUND)

    model, optimizer = attached(worker)
    worker.constrain(clip)
    loop(worker, model, optimizer)


@case(lambda weights: not weights["0.weight"][::2].any() and bool(weights["0.weight"].any()))
def masked_by_constrain(worker: Any) -> None:
    def prune(model: Any) -> None:
        model[0].weight[::2] = 0.0

    model, optimizer = attached(worker)
    worker.constrain(prune)
    loop(worker, model, optimizer)


def counted(hang: Callable[[nn.Module, torch.optim.Optimizer, Callable[..., None]], Any], a_step: int = 1) -> Callable[[Any], None]:
    """What `hang` hangs on is called so often `a_step`."""

    def train(worker: Any) -> None:
        model, optimizer = attached(worker)
        calls: list[None] = []
        handle = hang(model, optimizer, lambda *_, **__: calls.append(None))
        steps = loop(worker, model, optimizer)
        if handle is not None:
            handle.remove()
        assert len(calls) == a_step * steps, f"{len(calls)} calls in {steps} steps"

    return train


def everywhere(model: nn.Module, optimizer: torch.optim.Optimizer, call: Callable[..., None]) -> Any:
    """A hook of all optimizers, which other workers of the same process have too."""
    return register_optimizer_step_post_hook(lambda stepped, *_: call() if stepped is optimizer else None)


CASES["a_hook_before_steps"] = Case(counted(lambda _, optimizer, call: optimizer.register_step_pre_hook(call)))
CASES["a_hook_after_steps"] = Case(counted(lambda _, optimizer, call: optimizer.register_step_post_hook(call)))
CASES["a_hook_after_steps_of_all_optimizers"] = Case(counted(everywhere))
CASES["a_hook_of_a_gradient"] = Case(counted(lambda model, _, call: next(model.parameters()).register_hook(call)))  # type: ignore[no-untyped-call]
CASES["a_hook_after_gradients"] = Case(
    counted(lambda model, _, call: next(model.parameters()).register_post_accumulate_grad_hook(call))  # type: ignore[no-untyped-call]
)
CASES["a_hook_of_forward"] = Case(counted(lambda model, _, call: model.register_forward_hook(call)))
CASES["a_hook_of_backward"] = Case(counted(lambda model, _, call: list(model)[-1].register_full_backward_hook(call)))


@case()
def hooks_of_state_dicts(worker: Any) -> None:
    model, optimizer = attached(worker)
    read: list[str] = []
    model.register_state_dict_post_hook(lambda *_: read.append("model"))  # type: ignore[no-untyped-call]
    optimizer.register_state_dict_post_hook(lambda *_: read.append("optimizer"))
    loop(worker, model, optimizer)
    read.clear()
    model.state_dict(), optimizer.state_dict()
    assert read == ["model", "optimizer"]


class Halved(nn.Module):
    """A weight that is computed from another."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight / 2


@case(lambda weights: any("parametrizations" in name for name in weights))
def a_parametrized_weight(worker: Any) -> None:
    model: Any = network()
    parametrize.register_parametrization(model[0], "weight", Halved())
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    before = model[0].parametrizations.weight.original.detach().clone()
    loop(worker, model, optimizer)
    worker.finish()
    assert not torch.equal(before, model[0].parametrizations.weight.original), "it was trained"


def momenta(model: nn.Module) -> dict[int, dict[str, Tensor]]:
    """A state of SGD's, as if it had gone far in one direction."""
    return {number: {"momentum_buffer": torch.full_like(parameter, 1e3)} for number, parameter in enumerate(model.parameters())}


def in_motion(weights: dict[str, Tensor]) -> bool:
    """Weights have moved in that direction, however little of it a codec sends at a time; without momenta they do not."""
    return torch.cat([value.reshape(-1) for value in weights.values()]).mean().item() < 0.003


@case(in_motion)
def momenta_loaded_before_attach(worker: Any) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": momenta(model)})
    worker.attach(model, optimizer)
    loop(worker, model, optimizer)


@case(in_motion)
def momenta_loaded_after_attach(worker: Any) -> None:
    model, optimizer = attached(worker, momentum=0.9)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": momenta(model)})
    loop(worker, model, optimizer)


@case(in_motion)
def momenta_written_by_hand(worker: Any) -> None:
    model, optimizer = attached(worker, momentum=0.9)
    for number, parameter in enumerate(model.parameters()):
        optimizer.state[parameter] = momenta(model)[number]
    loop(worker, model, optimizer)


@case()
def a_step_replaced_before_attach(worker: Any) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plain, calls = optimizer.step, list[None]()

    def step(*given: Any) -> Any:
        calls.append(None)
        return plain(*given)

    optimizer.step = step  # type: ignore[method-assign,assignment]
    worker.attach(model, optimizer)
    steps = loop(worker, model, optimizer)
    assert len(calls) == steps, f"{len(calls)} calls in {steps} steps"


@case(lambda weights: torch.equal(weights["0.weight"], weights["1.weight"]))
def two_parameters_in_the_same_memory(worker: Any) -> None:
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10), nn.Linear(10, 3))
    model[0].weight.data = model[1].weight.data
    loop(worker, *worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1)))


MARKS = {"right": "+", "refused": "-", "wrong": "!"}
REMEDIES = ("before worker.attach", "worker.constrain", "worker.finish", "take a system whose", "after worker.attach", "own one parameter")


@contextmanager
def one_thread() -> Iterator[None]:
    """The models are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def verdict(name: str, system: str, on: Runtime) -> str:
    """ "right", "refused: …" with the message, or "wrong: …"."""
    tried = CASES[name]
    try:
        with one_thread():
            outcome = run(tried.train, workers=1 if system == "single" else 4, strategy=system, on=on, seed=5)
    except CompositionError as error:
        return f"{'refused' if any(remedy in str(error) for remedy in REMEDIES) else 'wrong'}: {error}"
    return "right" if tried.right(dict(outcome.weights)) else "wrong: other weights"


def _print(cases: list[str], names: list[str], runtime: str) -> None:
    for system in names:
        found = {}
        for each in cases:
            try:
                found[each] = verdict(each, system, RUNTIMES[runtime]())
            except Exception as error:  # the table goes on
                found[each] = f"wrong: {type(error).__name__}: {str(error)[:90]}"
        marks = "".join(MARKS[text.partition(":")[0]] for text in found.values())
        print(f"{system:22} {marks}", *(f"\n    {each}: {text}" for each, text in found.items() if text.startswith("wrong")), flush=True)


if __name__ == "__main__":
    chosen, named, runtime = (*sys.argv[1:], *("all", "all", "simulator")[len(sys.argv) - 1 :])
    listed = list(CASES) if chosen == "all" else chosen.split(",")
    print(*(f"{place}: {each}" for place, each in enumerate(listed, 1)), sep="\n")
    _print(listed, list(systems.SYSTEMS) if named == "all" else named.split(","), runtime)
