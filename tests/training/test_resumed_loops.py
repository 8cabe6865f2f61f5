"""Loops of every kind, resumed at the first, a middle and the last step of a pass: as if not broken off, or refused with the remedy."""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import polyrhythm as pr
from polyrhythm.core.simulator import Instant
from polyrhythm.errors import CheckpointError, PolyrhythmError, WorkloadError

DATA = torch.randn(32, 6, generator=torch.Generator().manual_seed(3))
FEW, MANY = (2, 4), (1, 2, 3, 4, 5, 9)
Program = Callable[[pr.Worker], object]


class Steps:
    """A model, and steps whose gradients depend on the batch and on a `scale`."""

    def __init__(self, worker: pr.Worker) -> None:
        self.worker = worker
        self.model = nn.Linear(6, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        worker.attach(self.model, self.optimizer)

    def take(self, batch: Tensor, scale: float = 1.0) -> None:
        self.optimizer.zero_grad()
        (self.model(batch).square().mean() * (1 + 0.1 * scale)).backward()
        self.optimizer.step()

    def batches(self, data: Any = (DATA,), size: int = 4, **options: Any) -> Any:
        return self.worker.batches(data, size, **options)


def forever(steps: Steps, data: Any = (DATA,)) -> Iterator[Any]:
    while True:
        yield from steps.batches(data)


def left_by_the_clock(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(4):
        for (x,) in steps.batches():
            steps.take(x)
            if worker.clock % 3 == 0:
                break


def of_so_many_steps(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(4):
        for (x,) in steps.batches(steps=3):
            steps.take(x)


def of_a_loader(worker: pr.Worker) -> None:
    steps, loader = Steps(worker), DataLoader(TensorDataset(DATA), batch_size=4, shuffle=True)
    for _ in range(4):
        for (x,) in worker.batches(loader, steps=3):
            steps.take(x)


def numbered_and_left(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(4):
        for number, (x,) in worker.enumerate(steps.batches(), 1):
            steps.take(x, number)
            if number == 3:
                break


def accumulated(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(5):
        steps.optimizer.zero_grad()
        for number, (x,) in worker.enumerate(steps.batches()):
            steps.model(x).square().mean().backward()
            if number % 2:
                steps.optimizer.step()
                steps.optimizer.zero_grad()


def counted_with_next(worker: pr.Worker) -> None:
    steps = Steps(worker)
    drawn = forever(steps)
    for number in worker.range(11):
        (x,) = next(drawn)
        steps.take(x, number)


def started_for_each_step(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for number in worker.range(11):
        (x,) = next(iter(steps.batches()))
        steps.take(x, number)


def from_two_iterators(worker: pr.Worker) -> None:
    steps = Steps(worker)
    first, second = forever(steps), forever(steps, (torch.cat([DATA, 2 * DATA]),))
    for _ in worker.range(11):
        (x,), (y,) = next(first), next(second)
        steps.take(x + y)


def from_iterators_that_were_started_before(worker: pr.Worker) -> None:
    steps = Steps(worker)
    first, second = forever(steps), forever(steps, (2 * DATA,))
    (x,), (y,) = next(first), next(second)
    for _ in worker.range(11):
        steps.take(x + y)
        (x,), (y,) = next(first), next(second)


def validated_by_an_iterator(worker: pr.Worker) -> None:
    steps = Steps(worker)
    held = iter(steps.batches((2 * DATA.repeat(9, 1),)))
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x)
            (y,) = next(held)
            worker.report(held=steps.model(y).mean())


def zipped(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(3):
        for (x,), (y,) in zip(steps.batches(), steps.batches((2 * DATA,)), strict=True):
            steps.take(x + y)


def nested(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for (x,) in steps.batches():
        for (y,) in steps.batches((2 * DATA,)):
            steps.take(x + y)


def several_steps_a_batch(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for (x,) in steps.batches((DATA.repeat(2, 1),)):
        for number in worker.range(3):
            steps.take(x, number)


def over_data_in_turn(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(2):
        for (x,) in steps.batches(steps=3):
            steps.take(x)
        for (x,) in steps.batches((2 * DATA,), 8):
            steps.take(x)


def looked_at_before(worker: pr.Worker) -> None:
    """A first batch of an iterator that is left, and of one that is not."""
    steps = Steps(worker)
    (first,), held = next(iter(steps.batches())), iter(steps.batches())
    (second,) = next(held)
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x + first + second)


def with_the_mean_of_all(worker: pr.Worker) -> None:
    steps = Steps(worker)
    mean = sum(float(x.mean()) for (x,) in steps.batches())
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x, mean)


def until_it_is_good(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for epoch in worker.range(9):
        total = count = 0.0
        for (x,) in steps.batches():
            steps.take(x)
        for (x,) in steps.batches((3 * DATA,)):
            total, count = total + steps.model(x).square().mean().item(), count + 1
        worker.report(loss=total / count, epoch=epoch)
        if worker.any(total / count < 5.0) or epoch == 3:
            break


def with_own_batches(worker: pr.Worker) -> None:
    steps = Steps(worker)
    schedule = CosineAnnealingLR(steps.optimizer, 12)
    for number in worker.range(11):
        worker.count(4)
        steps.take(torch.randn(4, 6), number)
        schedule.step()


def over_a_stream(worker: pr.Worker) -> None:
    class SampleStream(IterableDataset[Tensor]):
        def __iter__(self) -> Iterator[Tensor]:
            yield from DATA

    steps, stream = Steps(worker), SampleStream()
    for _ in range(4):
        for x in steps.batches(stream, steps=3):
            steps.take(x)


def over_an_iterator(worker: pr.Worker) -> None:
    steps, once = Steps(worker), iter(DATA.repeat(4, 1))
    for _ in range(4):
        for x in steps.batches(once, steps=3):
            steps.take(x)


def kept_in_variables(worker: pr.Worker) -> None:
    steps, own = Steps(worker), worker.variables(count=0, total=0.0, seen=[])
    for _ in range(4):
        for (x,) in steps.batches():
            steps.take(x, own.count)
            own.count += 1
            own.total += float(x.sum())
            own.seen.append(own.count)
            if own.count == 11:
                worker.report(total=own.total, seen=len(own.seen))
                return


def with_a_schedule(worker: pr.Worker) -> None:
    steps = Steps(worker)
    schedule = CosineAnnealingLR(steps.optimizer, 12)
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x)
            schedule.step()


def with_averages(worker: pr.Worker) -> None:
    steps, target = Steps(worker), nn.Linear(6, 1)
    average = AveragedModel(steps.model)
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x, target(x).mean().item())
            average.update_parameters(steps.model)
            with torch.no_grad():
                target.weight.mul_(0.9).add_(steps.model.weight, alpha=0.1)
    worker.report(average=sum(p.sum() for p in average.parameters()), target=target.weight.sum())


def with_generators(worker: pr.Worker) -> None:
    steps, drawn = Steps(worker), torch.Generator().manual_seed(1)
    plain, array = random.Random(2), np.random.default_rng(3)
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x + torch.randn(4, 6, generator=drawn), plain.random() + array.random())


class Trainer:
    """A loop whose state is in attributes."""

    def __init__(self, worker: pr.Worker) -> None:
        self.steps = Steps(worker)
        self.taken = 0

    def take(self, x: Tensor) -> None:
        self.steps.take(x, self.taken)
        self.taken += 1

    def fit(self) -> None:
        for _ in range(3):
            for (x,) in self.steps.batches():
                self.take(x)


def counted_in_an_attribute(worker: pr.Worker) -> None:
    Trainer(worker).fit()


def counted_in_a_dict(worker: pr.Worker) -> None:
    steps, state = Steps(worker), {"taken": 0}
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x, state["taken"])
            state["taken"] += 1


def with_a_list(worker: pr.Worker) -> None:
    steps, losses = Steps(worker), []
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x)
            losses.append(float(x.mean()))
    worker.report(mean=sum(losses) / len(losses))


ALIKE: list[Program] = [
    left_by_the_clock,
    of_so_many_steps,
    of_a_loader,
    numbered_and_left,
    accumulated,
    counted_with_next,
    started_for_each_step,
    from_two_iterators,
    from_iterators_that_were_started_before,
    validated_by_an_iterator,
    zipped,
    nested,
    several_steps_a_batch,
    over_data_in_turn,
    looked_at_before,
    with_the_mean_of_all,
    until_it_is_good,
    with_own_batches,
    over_a_stream,
    over_an_iterator,
    kept_in_variables,
    with_a_schedule,
    with_averages,
    with_generators,
    counted_in_an_attribute,
    counted_in_a_dict,
    with_a_list,
]


def enumerated(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(4):
        for number, (x,) in enumerate(steps.batches()):
            steps.take(x)
            if number == 2:
                break


def enumerated_around_a_bar(worker: pr.Worker) -> None:
    steps = Steps(worker)

    def bar(drawn: Any) -> Iterator[Any]:
        yield from drawn

    for number, (x,) in enumerate(bar(steps.batches((DATA.repeat(3, 1),)))):
        steps.take(x, number)


def sliced(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(4):
        for (x,) in itertools.islice(steps.batches(), 3):
            steps.take(x)


def zipped_with_a_range(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _epoch in range(4):
        for _, (x,) in zip(range(3), steps.batches(), strict=False):
            steps.take(x)


def counted(worker: pr.Worker) -> None:
    steps, taken = Steps(worker), 0
    for _ in range(4):
        for (x,) in steps.batches():
            steps.take(x)
            taken += 1
            if taken == 11:
                return


def counted_by_another(worker: pr.Worker) -> None:
    steps, taken = Steps(worker), 0

    def take(x: Tensor) -> None:
        nonlocal taken
        steps.take(x, taken)
        taken += 1

    for _ in range(3):
        for (x,) in steps.batches():
            take(x)


def with_a_best(worker: pr.Worker) -> None:
    steps, best = Steps(worker), 9e9
    for _ in range(3):
        for (x,) in steps.batches():
            steps.take(x)
            if (loss := float(x.mean())) < best:
                best = loss
    worker.report(best=best)


def steps_of_a_range(worker: pr.Worker) -> None:
    steps = Steps(worker)
    drawn = forever(steps)
    for _ in range(11):
        (x,) = next(drawn)
        steps.take(x)


def own_batches_of_a_range(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _ in range(11):
        worker.count(4)
        steps.take(torch.randn(4, 6))


def own_batches_and_a_while(worker: pr.Worker) -> None:
    steps, taken = Steps(worker), 0
    while taken < 11:
        worker.count(4)
        steps.take(torch.randn(4, 6))
        taken += 1


REFUSED: list[tuple[Program, str]] = [
    (enumerated, r"enumerate\(...\) counts .*: write worker.enumerate\(batches\)"),
    (enumerated_around_a_bar, r"enumerate\(...\) counts .*: write worker.enumerate\(batches\)"),
    (sliced, r"islice\(...\) counts .*: write worker.batches\(..., steps=n\)"),
    (zipped_with_a_range, r"zip\(\) with a range counts .*: write worker.batches\(..., steps=n\)"),
    (counted, r"The variable taken of counted\(\) was 2 where .* and is 0 now, .* own = worker.variables\(taken=...\)"),
    (counted_by_another, r"The variable taken of counted_by_another\(\) was 2"),
    (with_a_best, r"The variable best of with_a_best\(\) was .* and is 9000000000.0 now"),
    (steps_of_a_range, r"The variable _ of steps_of_a_range\(\) was 2 .* and is 0 now, .* worker.range\(n\)"),
    (own_batches_of_a_range, r"The variable _ of own_batches_of_a_range\(\) was 1 .* and is 0 now, .* worker.range\(n\)"),
    (own_batches_and_a_while, r"The variable taken of own_batches_and_a_while\(\) was 1 .* and is 0 now"),
]


def go(program: Program, **options: Any) -> pr.Run:
    return pr.run(program, workers=2, on=pr.Simulator(network=Instant()), seed=5, **options)


def resumed_alike(program: Program, directory: Path, steps: tuple[int, ...], every: int) -> None:
    whole = go(program, checkpoints=pr.Checkpoints(directory, every=every, keep=100))
    written = [path for step in steps if (path := directory / f"step-{step:08d}").exists()]
    assert len(written) >= len(steps) // 2
    for path in written:
        again = go(program, checkpoints=pr.Checkpoints(resume=path))
        assert again.summary.weights_sha256 == whole.summary.weights_sha256, path
        assert (again.summary.steps, again.summary.samples, again.final) == (whole.summary.steps, whole.summary.samples, whole.final), path


OFTEN = (
    of_so_many_steps,
    numbered_and_left,
    from_two_iterators,
    validated_by_an_iterator,
    zipped,
    nested,
    looked_at_before,
    until_it_is_good,
    with_own_batches,
    kept_in_variables,
    with_averages,
    counted_in_an_attribute,
    with_a_list,
)


@pytest.mark.parametrize("program", OFTEN, ids=lambda program: program.__name__)
def test_a_loop_that_is_resumed_ends_as_if_it_had_not_been_broken_off(program: Program, tmp_path: Path) -> None:
    resumed_alike(program, tmp_path, FEW, 2)


@pytest.mark.long
@pytest.mark.parametrize("program", ALIKE, ids=lambda program: program.__name__)
def test_it_does_at_many_steps(program: Program, tmp_path: Path) -> None:
    resumed_alike(program, tmp_path, MANY, 1)


RARELY = {enumerated_around_a_bar, sliced, counted_by_another, with_a_best, own_batches_and_a_while}


@pytest.mark.parametrize(
    ("program", "message"),
    [pytest.param(*each, marks=[pytest.mark.long] if each[0] in RARELY else []) for each in REFUSED],
    ids=[program.__name__ for program, _ in REFUSED],
)
def test_a_loop_that_would_end_otherwise_is_refused_with_the_remedy(program: Program, message: str, tmp_path: Path) -> None:
    go(program, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    with pytest.raises(CheckpointError, match=message):
        go(program, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002"))


def test_a_counter_that_was_no_variable_of_the_worker_takes_its_value_from_the_checkpoint(tmp_path: Path) -> None:
    def corrected(worker: pr.Worker) -> None:
        steps, own = Steps(worker), worker.variables(taken=0)
        for _ in range(4):
            for (x,) in steps.batches():
                steps.take(x)
                own.taken += 1
                if own.taken == 11:
                    return

    whole = go(counted, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    assert (
        go(corrected, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002")).summary.weights_sha256 == whole.summary.weights_sha256
    )


def test_a_variable_may_begin_anew_where_the_user_accepts_it(tmp_path: Path) -> None:
    whole = go(with_a_list, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    again = go(with_a_list, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000002", override=["losses"]))
    assert again.summary.weights_sha256 == whole.summary.weights_sha256


def test_a_run_that_ends_before_it_has_come_back_is_refused(tmp_path: Path) -> None:
    def good(worker: pr.Worker) -> None:
        steps = Steps(worker)
        for _ in range(4):
            for (x,) in steps.batches():
                steps.take(x)
            if worker.samples > 20:
                break

    go(good, checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    with pytest.raises(CheckpointError, match=r"ended before it came to where .* write `for epoch in worker.epochs\(n\):`"):
        go(good, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000007"))


def test_steps_that_would_be_taken_twice_are_refused(tmp_path: Path) -> None:
    def warmed(worker: pr.Worker) -> None:
        steps = Steps(worker)
        while worker.samples < 16:
            worker.count(4)
            steps.take(torch.ones(4, 6))
        if worker.clock < 3:
            steps.take(torch.ones(4, 6))
        for (x,) in steps.batches():
            steps.take(x)

    def warmed_again(worker: pr.Worker) -> None:
        steps = Steps(worker)
        worker.count(4)
        steps.take(torch.ones(4, 6))
        for (x,) in steps.batches():
            steps.take(x)

    go(warmed, checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    with pytest.raises(CheckpointError, match=r"A step is taken before .* count with worker.range\(n\) or worker.clock"):
        go(warmed_again, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000005"))


def test_what_follows_a_step_outside_of_loops_is_not_lost_unseen(tmp_path: Path) -> None:
    def scheduled(worker: pr.Worker) -> None:
        steps = Steps(worker)
        schedule = CosineAnnealingLR(steps.optimizer, 12)
        while worker.clock < 5:
            worker.count(4)
            steps.take(torch.ones(4, 6))
            schedule.step()

    with pytest.raises(WorkloadError, match=r"what the iteration does after that with .*schedule would be missing .* worker.range\(n\)"):
        go(scheduled, checkpoints=pr.Checkpoints(tmp_path, every=2))


def test_saving_between_a_batch_and_its_step_is_refused(tmp_path: Path) -> None:
    def early(worker: pr.Worker) -> None:
        steps = Steps(worker)
        for (x,) in steps.batches():
            if worker.clock:
                worker.save()
            steps.take(x)

    with pytest.raises(WorkloadError, match=r"after a batch was drawn and before the step on it"):
        go(early, checkpoints=pr.Checkpoints(tmp_path))


def test_what_a_pass_that_is_empty_now_had_set_is_explained(tmp_path: Path) -> None:
    def averaging(worker: pr.Worker) -> None:
        steps = Steps(worker)
        for _ in range(2):
            for (x,) in steps.batches():
                steps.take(x)
            found = [steps.model(x).mean().item() for (x,) in steps.batches()]
            worker.report(mean=sum(found) / len(found))

    go(averaging, checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    with pytest.raises(PolyrhythmError, match=r"ZeroDivisionError: .* write `for epoch in worker.epochs\(n\):`"):
        go(averaging, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000006"))


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_a_number_of_steps_that_is_none_is_refused(steps: Any) -> None:
    with pytest.raises(PolyrhythmError, match=r"steps=.* is not a number of batches"):
        go(lambda worker: worker.batches((DATA,), 4, steps=steps))


def test_more_steps_than_a_pass_has_are_refused() -> None:
    with pytest.raises(PolyrhythmError, match=r"steps=5 is more than the 4 batches of one pass through these data"):
        go(lambda worker: worker.batches((DATA,), 4, steps=5))


def test_only_batches_are_numbered() -> None:
    with pytest.raises(PolyrhythmError, match=r"worker.enumerate was given a list"):
        go(lambda worker: list(worker.enumerate([1])))  # type: ignore[arg-type]
