"""State of the user's own that is carried from step to step: a resumed run ends with the same bits, or is refused with the remedy."""

import copy
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.core.simulator import Instant
from polyrhythm.errors import CheckpointError, RecordWarning

DATA = torch.randn(32, 6, generator=torch.Generator().manual_seed(3))
Program = Callable[[pr.Worker], object]


class Steps:
    """A model, and steps whose gradients depend on the batch and on a `scale`."""

    def __init__(self, worker: pr.Worker) -> None:
        self.model = nn.Linear(6, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        worker.attach(self.model, self.optimizer)

    def take(self, batch: Tensor, scale: Any = 1.0) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.model(batch).square().mean() * (1 + 0.1 * scale)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def epochs(worker: pr.Worker) -> Iterator[tuple[int, Any]]:
    for epoch in worker.range(3):
        yield epoch, worker.batches((DATA,), 4)


def averaged_in_a_dict(worker: pr.Worker) -> None:
    steps = Steps(worker)
    ema = {name: each.detach().clone() for name, each in steps.model.named_parameters()}
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, ema["weight"].sum())
            for name, each in steps.model.named_parameters():
                ema[name].mul_(0.9).add_(each.detach(), alpha=0.1)


def averaged_in_a_dict_anew(worker: pr.Worker) -> None:
    steps = Steps(worker)
    ema = {name: each.detach().clone() for name, each in steps.model.named_parameters()}
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, ema["weight"].sum())
            for name, each in steps.model.named_parameters():
                ema[name] = 0.9 * ema[name] + 0.1 * each.detach()


class Average:
    """Of the weights."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.updates = 0
        self.shadow = {name: each.data.clone() for name, each in model.named_parameters()}

    def update(self) -> None:
        self.updates += 1
        for name, each in self.model.named_parameters():
            self.shadow[name].data.mul_(0.9).add_(each.data, alpha=0.1)


def averaged_by_an_object(worker: pr.Worker) -> None:
    steps = Steps(worker)
    average = Average(steps.model)
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, average.shadow["weight"].sum() + average.updates)
            average.update()


class Trainer:
    """Has such an object, and counts."""

    def __init__(self, worker: pr.Worker) -> None:
        self.worker = worker
        self.steps = Steps(worker)
        self.average = Average(self.steps.model)
        self.seen: Any = None
        self.phase = "warm"

    def fit(self) -> None:
        for _, batches in epochs(self.worker):
            for (x,) in batches:
                self.steps.take(
                    x, self.average.shadow["weight"].sum() + getattr(self, "last", 0.0) + (0.0 if self.seen is None else self.seen.sum())
                )
                self.average.update()
                self.seen = x.mean(0) if self.seen is None else self.seen + x.mean(0)
                self.last = getattr(self, "last", 0.0) + float(x.mean())
                if self.phase == "warm" and self.average.updates == 4:
                    self.phase = "cold"
                    self.steps.optimizer.param_groups[0]["weight_decay"] = 0.1


def fitted_by_a_trainer(worker: pr.Worker) -> None:
    Trainer(worker).fit()


def with_own_momenta(worker: pr.Worker) -> None:
    steps = Steps(worker)
    momenta = [torch.zeros_like(each) for each in steps.model.parameters()]
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.optimizer.zero_grad()
            steps.model(x).square().mean().backward()
            for momentum, each in zip(momenta, steps.model.parameters(), strict=True):
                momentum.mul_(0.5).add_(each.grad)
                each.grad.copy_(momentum)
            steps.optimizer.step()


def with_momenta_by_parameter(worker: pr.Worker) -> None:
    steps = Steps(worker)
    momenta = {each: torch.zeros_like(each) for each in steps.model.parameters()}
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.optimizer.zero_grad()
            steps.model(x).square().mean().backward()
            for each in steps.model.parameters():
                momenta[each] = momenta[each] * 0.5 + each.grad
                each.grad.copy_(momenta[each])
            steps.optimizer.step()


def with_counts(worker: pr.Worker) -> None:
    steps, counts = Steps(worker), torch.zeros(2, dtype=torch.long)
    for _, batches in epochs(worker):
        for (x,) in batches:
            counts[(x[:, 0] > 0).long()] += 1
            steps.take(x, counts[0] / counts.sum())


def with_counts_of_numpy(worker: pr.Worker) -> None:
    steps, counts = Steps(worker), np.zeros(2, dtype=np.int64)
    for _, batches in epochs(worker):
        for (x,) in batches:
            counts[int(x[0, 0] > 0)] += 1
            steps.take(x, float(counts[0]))


def counted_in_a_dict(worker: pr.Worker) -> None:
    steps, state = Steps(worker), {"n": 0}
    key = "n"
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, state[key])
            state[key] += 1


def counted_in_a_list(worker: pr.Worker) -> None:
    steps, state = Steps(worker), [0]
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, state[0])
            state[0] += 1


def counted_in_a_namespace(worker: pr.Worker) -> None:
    steps, state = Steps(worker), SimpleNamespace(n=0)
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, state.n)
            state.n += 1


def with_what_was_seen_last(worker: pr.Worker) -> None:
    steps, last, seen = Steps(worker), deque[Tensor](maxlen=3), set[int]()
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, sum((each.mean() for each in last), torch.zeros(())) + len(seen))
            last.append(x)
            seen.add(int(x[0, 0] * 10))


def with_the_weights_of_an_epochs_beginning(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _, batches in epochs(worker):
        anchor = [each.detach().clone() for each in steps.model.parameters()]
        for (x,) in batches:
            steps.take(x, (steps.model.weight.detach() - anchor[0]).sum())


class Annealed(nn.Module):
    """Counts its calls, and has a switch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls, self.drop = nn.Linear(6, 1), 0, nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        result: Tensor = self.linear(self.drop(x)) / self.calls
        return result


def with_a_model_that_counts(worker: pr.Worker) -> None:
    model = Annealed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    worker.attach(model, optimizer)
    for _, batches in epochs(worker):
        for (x,) in batches:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            if worker.clock == 3:
                model.drop.eval()


RESTORED: list[Program] = [
    with_a_model_that_counts,
    averaged_in_a_dict,
    averaged_in_a_dict_anew,
    averaged_by_an_object,
    fitted_by_a_trainer,
    with_own_momenta,
    with_momenta_by_parameter,
    with_counts,
    with_counts_of_numpy,
    counted_in_a_dict,
    counted_in_a_list,
    counted_in_a_namespace,
    with_what_was_seen_last,
    with_the_weights_of_an_epochs_beginning,
]


def with_a_hidden_state(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _, batches in epochs(worker):
        hidden = torch.zeros(6)
        for (x,) in batches:
            out = torch.tanh(hidden + x.mean(0))
            steps.take(x, out.sum())
            hidden = out.detach()


def with_a_hidden_state_that_is_never_reset(worker: pr.Worker) -> None:
    steps, h = Steps(worker), torch.zeros(6)
    for _, batches in epochs(worker):
        for (x,) in batches:
            h = torch.tanh(h.detach() + x.mean(0))
            steps.take(x, h.sum())


def with_a_hidden_pair(worker: pr.Worker) -> None:
    steps, hidden = Steps(worker), None
    for _, batches in epochs(worker):
        for (x,) in batches:
            h, c = (torch.zeros(6), torch.zeros(6)) if hidden is None else hidden
            h, c = torch.tanh(h + x.mean(0)), c + h
            steps.take(x, h.sum())
            hidden = (h.detach(), c.detach())


def counted_by_an_integer_of_numpy(worker: pr.Worker) -> None:
    steps, taken = Steps(worker), np.int64(0)
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, int(taken))
            taken += 1


def summed_by_a_float_of_numpy(worker: pr.Worker) -> None:
    steps, total = Steps(worker), np.float64(0)
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, float(total))
            total = total + float(x.mean())


def counted_in_an_array_without_dimensions(worker: pr.Worker) -> None:
    steps, taken = Steps(worker), np.array(0)
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, int(taken))
            taken = taken + 1


def with_a_phase(worker: pr.Worker) -> None:
    steps, phase = Steps(worker), "a"
    for _, batches in epochs(worker):
        for (x,) in batches:
            if worker.clock == 2:
                phase = "b"
            steps.take(x, 1 if phase == "a" else 5)


def with_a_switch(worker: pr.Worker) -> None:
    steps, frozen = Steps(worker), None
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, 1 if frozen is None else 5)
            if worker.clock == 2:
                frozen = True


class Phase(Enum):
    """Of training."""

    WARM = 1
    COLD = 2


def with_a_phase_of_an_enumeration(worker: pr.Worker) -> None:
    steps, phase = Steps(worker), Phase.WARM
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, phase.value)
            if worker.clock == 2:
                phase = Phase.COLD


def with_the_best(worker: pr.Worker) -> None:
    steps, best, best_state = Steps(worker), None, None
    for epoch, batches in epochs(worker):
        for (x,) in batches:
            loss = steps.take(x).item()
            if best is None or loss < best:
                best = loss
                best_state = copy.deepcopy(steps.model.state_dict())
        worker.report(epoch=epoch)
    assert best_state is not None
    worker.report(best=best_state["weight"].sum())


def with_the_best_state_alone(worker: pr.Worker) -> None:
    steps, best_state = Steps(worker), None
    for _, batches in epochs(worker):
        for (x,) in batches:
            if steps.take(x) < 9:
                best_state = copy.deepcopy(steps.model.state_dict())
            if worker.clock == 11:
                assert best_state is not None
                worker.report(best=best_state["weight"].sum())


def with_a_phase_of_a_closure(worker: pr.Worker) -> None:
    steps, phase = Steps(worker), "a"

    def take(x: Tensor) -> None:
        steps.take(x, 1 if phase == "a" else 5)

    for _, batches in epochs(worker):
        for (x,) in batches:
            take(x)
            if worker.clock == 2:
                phase = "b"


REFUSED: list[tuple[Program, str]] = [
    (
        with_a_hidden_state,
        r"hidden of with_a_hidden_state\(\) was a tensor of \(6,\) where .* another now, .* worker.variables\(hidden=...\)",
    ),
    (with_a_hidden_state_that_is_never_reset, r"The variable h of .* was a tensor of \(6,\) where .* own.h for it"),
    (with_a_hidden_pair, r"The variable hidden of .* was a tuple of 2 where .* and is None now"),
    (counted_by_an_integer_of_numpy, r"The variable taken of .* was 2 .* and is 0 now"),
    (summed_by_a_float_of_numpy, r"The variable total of .* and is 0.0 now"),
    (counted_in_an_array_without_dimensions, r"The variable taken of .* was 2 .* and is 0 now"),
    (with_a_phase, r"The variable phase of .* was 'b' where .* is 'a' now"),
    (with_a_switch, r"The variable frozen of .* was True where .* is None now"),
    (with_a_phase_of_an_enumeration, r"The variable phase of .* was 'COLD' where .* is 'WARM' now"),
    (with_the_best, r"The variable best of .* where .* is None now"),
    (with_the_best_state_alone, r"The variable best_state of .* was a dict of 2 where .* is None now"),
    (with_a_phase_of_a_closure, r"The variable phase of .* was 'b' where .* is 'a' now"),
]


class Meter:
    """Averages of what is only printed, and times."""

    def __init__(self) -> None:
        self.sum, self.count, self.average = 0.0, 0, 0.0
        self.began = time.perf_counter()
        self.lines: list[str] = []

    def update(self, value: float) -> None:
        self.sum, self.count = self.sum + value, self.count + 1
        self.average = self.sum / self.count
        self.lines.append(f"{value:.3f} after {time.perf_counter() - self.began:.3f} s")
        self.began = time.perf_counter()


def an_ordinary_script(worker: pr.Worker) -> None:
    steps, meter = Steps(worker), Meter()
    history: dict[str, list[Any]] = {"loss": [], "norm": []}
    losses: list[Tensor] = []
    began = last = time.time()
    spent = 0.0
    features = DATA * 2
    name = f"run-{time.time_ns()}"
    loss, buffer = torch.zeros(()), torch.empty(4, 6)
    device = torch.device("cpu")
    for epoch, batches in epochs(worker):
        epoch_began = time.perf_counter()
        correct, order = 0, torch.randperm(32)
        for (x,) in batches:
            x = x.to(device)
            buffer.copy_(x)
            logits = steps.model(buffer)
            loss = steps.take(buffer, features[order[0], 0])
            meter.update(loss.item())
            history["loss"].append(loss.item())
            history["norm"].append(steps.model.weight.detach().norm())
            losses.append(loss)
            correct = int((logits > 0).sum())
            now = time.time()
            spent += now - last
            meter.lines.append(f"{now - last:.3f} {correct}")
            last = now
            if worker.clock % 5 == 0:
                accuracy = (steps.model(DATA) > 0).float().mean()
                meter.lines.append(f"{accuracy:.2f}")
        meter.lines.append(f"{name} {epoch} {loss:.3f} {time.perf_counter() - epoch_began:.3f} {time.time() - began:.3f} {correct}")
    worker.report(mean=meter.average, seen=len(history["loss"]), sum=torch.stack(losses).sum())


def with_buffers_that_are_filled_anew(worker: pr.Worker) -> None:
    steps, best = Steps(worker), Meter()
    cache: dict[str, Tensor] = {}
    for _, batches in epochs(worker):
        total = torch.zeros(6)
        for (x,) in batches:
            cache["x"] = x
            scale = cache["x"].mean()
            try:
                steps.take(x, scale)
            except KeyboardInterrupt:
                print(total, best)
                raise
        for x in DATA:
            total += x
        worker.report(total=total.sum())


ORDINARY: list[Program] = [an_ordinary_script, with_buffers_that_are_filled_anew]


def go(program: Program, on: Any = None, **options: Any) -> pr.Run:
    return pr.run(program, workers=2, on=on or pr.Simulator(network=Instant()), seed=5, **options)


def resumed_alike(program: Program, directory: Path, steps: tuple[int, ...], on: Any = None) -> None:
    whole = go(program, on, checkpoints=pr.Checkpoints(directory, every=2, keep=100))
    for step in steps:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = go(program, on, checkpoints=pr.Checkpoints(resume=directory / f"step-{step:08d}"))
        assert again.summary.weights_sha256 == whole.summary.weights_sha256, step
        assert again.final == whole.final, step


@pytest.mark.parametrize("program", [*RESTORED, *ORDINARY], ids=lambda program: program.__name__)
def test_what_a_step_changes_in_place_goes_on(program: Program, tmp_path: Path) -> None:
    resumed_alike(program, tmp_path, (6, 8))


@pytest.mark.parametrize(("program", "message"), REFUSED, ids=[program.__name__ for program, _ in REFUSED])
def test_what_a_step_sets_anew_is_refused_with_the_remedy(program: Program, message: str, tmp_path: Path) -> None:
    go(program, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    step = 4 if "phase" in message or "frozen" in message else 2
    with pytest.raises(CheckpointError, match=message):
        go(program, checkpoints=pr.Checkpoints(resume=tmp_path / f"step-{step:08d}"))


def test_the_corrected_script_takes_what_the_checkpoint_has(tmp_path: Path) -> None:
    def corrected(worker: pr.Worker) -> None:
        steps = Steps(worker)
        own = worker.variables(hidden=torch.zeros(6))
        for _, batches in epochs(worker):
            own.hidden = torch.zeros(6)
            for (x,) in batches:
                out = torch.tanh(own.hidden + x.mean(0))
                steps.take(x, out.sum())
                own.hidden = out.detach()

    whole = go(with_a_hidden_state, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    assert (
        go(corrected, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000006")).summary.weights_sha256 == whole.summary.weights_sha256
    )


@pytest.mark.parametrize("program", [with_the_best_state_alone, averaged_in_a_dict], ids=lambda program: program.__name__)
def test_it_begins_anew_where_the_user_accepts_it(program: Program, tmp_path: Path) -> None:
    variable = "best_state" if program is with_the_best_state_alone else "ema"
    whole = go(program, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    again = go(program, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000006", override=[variable]))
    assert (again.summary.weights_sha256 == whole.summary.weights_sha256) == (variable == "best_state")


def test_what_is_too_large_for_a_checkpoint_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyrhythm.core.training.own_state.own_state.MOST_BYTES", 20)
    with pytest.warns(RecordWarning, match=r"average of .* too large.* will be refused\. Give it.* worker.keep\(average=average\)"):
        go(averaged_by_an_object, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    with pytest.raises(CheckpointError, match=r"average of .* too large.* to be in the checkpoint\. Give it.* worker.keep\("):
        go(averaged_by_an_object, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))


def test_what_an_iteration_computes_alone_is_no_state(tmp_path: Path) -> None:
    class Loop:
        def __init__(self, worker: pr.Worker) -> None:
            self.worker, self.steps = worker, Steps(worker)
            self.loss, self.x = torch.zeros(()), torch.zeros(4, 6)

        def fit(self) -> None:
            while self.worker.clock < 6:
                self.worker.count(4)
                self.x = torch.ones(4, 6) * self.worker.clock
                self.loss = self.steps.take(self.x)

    go(lambda worker: Loop(worker).fit(), checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    go(lambda worker: Loop(worker).fit(), checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000004"))


@pytest.mark.parametrize("anew", [False, True])
def test_in_a_loop_without_batches_it_is_refused(anew: bool, tmp_path: Path) -> None:
    def averaged(worker: pr.Worker) -> None:
        steps = Steps(worker)
        ema = {"weight": steps.model.weight.detach().clone()}
        while worker.clock < 6:
            worker.count(4)
            steps.take(torch.ones(4, 6), ema["weight"].sum())
            mean = 0.9 * ema["weight"] + 0.1 * steps.model.weight.detach()
            if anew:
                ema = {"weight": mean}
            else:
                ema["weight"].copy_(mean)

    go(averaged, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    with pytest.raises(CheckpointError, match=r"The variable ema of .* was a dict of 1 where .* another now"):
        go(averaged, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000004"))


def test_state_goes_on_in_processes(tmp_path: Path) -> None:
    resumed_alike(averaged_by_an_object, tmp_path, (6,), pr.Processes())


def test_state_is_refused_in_processes(tmp_path: Path) -> None:
    on = pr.Processes()
    go(with_a_hidden_state, on, checkpoints=pr.Checkpoints(tmp_path, every=6))
    with pytest.raises(CheckpointError, match=r"worker.variables\(hidden=...\)"):
        go(with_a_hidden_state, on, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000006"))
