"""Laws of what a run gives its ranks: the system of `pr.join()`, a number of steps, a printed metric, the variables of torchrun."""

from __future__ import annotations

import io
import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm.core.kernel.events import Communicated, Reported, Stepped
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.torch_programs.printed import PrintedMetric
from polyrhythm.torch_programs.program import FunctionProgram
from polyrhythm.torch_programs.program_run import ProgramRun
from polyrhythm.torch_programs.rank_settings import RankSettings

from .programs import group

SLOW = pr.Simulator(network="slow")


def joined(found: dict[int, torch.Tensor]) -> None:
    with group() as (rank, _):
        torch.manual_seed(rank)
        model = torch.nn.Linear(4, 1)
        worker = pr.join(group=dist.group.WORLD)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for step in range(6):
            worker.count(8)
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            worker.report(step=step)
        worker.leave()
        found[rank] = model.weight.detach().clone()


@pytest.mark.parametrize("name", ["allreduce", "local-sgd", "gossipgrad"])
def test_a_worker_that_names_no_system_has_that_of_the_run(name: str) -> None:
    theirs: dict[int, torch.Tensor] = {}
    run = pr.simulate(joined, theirs, ranks=2, on=SLOW, strategy=name)
    assert run.summary.system == name
    assert run.summary.steps == 6
    assert run.summary.samples == 2 * 6 * 8
    steps = [event.clock for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/1"]
    assert steps == [1, 2, 3, 4, 5, 6]
    exchanges = [event for event in run.outcome.events if isinstance(event, Communicated) and event.what == "exchange"]
    assert {event.axis for event in exchanges} == {"all ranks"}
    assert sum(event.nbytes for event in exchanges) <= run.summary.bytes_sent


def test_a_system_that_no_rank_asks_for_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"never calls pr.join\(\) without a system"):
        pr.simulate(lambda: None, ranks=2, strategy="diloco")


def test_the_variable_names_the_system_with_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYRHYTHM_SYSTEM", "local-sgd period=3")
    seldom = pr.simulate(joined, {}, ranks=2, on=SLOW).summary.bytes_sent
    monkeypatch.setenv("POLYRHYTHM_SYSTEM", "local-sgd period=1")
    assert seldom < pr.simulate(joined, {}, ranks=2, on=SLOW).summary.bytes_sent


@pytest.mark.parametrize("strategy", [None, "allreduce", "local-sgd"])
def test_ranks_end_after_the_steps_that_are_wanted(strategy: str | None) -> None:
    main = plain if strategy is None else joined
    assert pr.simulate(main, {}, ranks=2, on=SLOW, strategy=strategy, steps=3).summary.steps == 3


def plain(found: dict[int, torch.Tensor]) -> None:
    with group():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()


LINES = [
    ("epoch 1 | loss: 0.5123 | lr 1e-3", 0.5123),
    ("{'train_loss': 9.0, 'loss': '0.7868', 'epoch': '0.5'}", 0.7868),
    ("loss=tensor(2.5e-01)", 0.25),
    ("Loss 3", 3.0),
    ("step 3 loss=-1.25 done", -1.25),
    ("loss: 0.5, loss: 0.25", 0.25),
]


@pytest.mark.parametrize(("line", "value"), LINES)
def test_a_metric_is_read_from_lines_as_people_print_them(line: str, value: float) -> None:
    found: list[dict[str, float]] = []
    stream = PrintedMetric(io.StringIO(), "loss", found.append)
    print(line, file=stream)
    assert found == [{"loss": value}]


@pytest.mark.parametrize("line", ["val_loss: 0.5", "lossy: 0.5", "the loss is unknown", "loss: nan", "loss of 3 ranks", "loss2 = 1"])
def test_other_numbers_are_not_the_metric(line: str) -> None:
    found: list[dict[str, float]] = []
    print(line, file=PrintedMetric(io.StringIO(), "loss", found.append))
    assert found == []


def test_rank_0_alone_is_read() -> None:
    def prints() -> None:
        print("loss:", float(os.environ["RANK"]) + 0.5)

    events = ProgramRun(FunctionProgram(prints), 3, SLOW, RankSettings(metric="loss")).attempt().outcome.events
    assert [(event.actor, event.metrics) for event in events if isinstance(event, Reported)] == [("worker/0", {"loss": 0.5})]


@pytest.mark.parametrize(("per_node", "expected"), [(None, [(0, 4), (1, 4), (2, 4), (3, 4)]), (2, [(0, 2), (1, 2), (0, 2), (1, 2)])])
def test_local_ranks_are_those_of_torchrun(per_node: int | None, expected: list[tuple[int, int]]) -> None:
    found: list[tuple[int, int]] = []

    def note() -> None:
        found.append((int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])))

    assert ProgramRun(FunctionProgram(note), 4, SLOW, per_node=per_node).attempt().error is None
    assert sorted(found) == sorted(expected)


def test_ranks_that_make_up_no_nodes_are_refused() -> None:
    with pytest.raises(CompositionError, match="3 ranks on each node"):
        ProgramRun(FunctionProgram(lambda: None), 4, SLOW, per_node=3)


def waits(seconds: float, late: float) -> None:
    with group() as (rank, _):
        import time

        if rank:
            time.sleep(late)
        work = dist.all_reduce(torch.ones(4), async_op=True)
        work.wait(timedelta(seconds=seconds))


def test_a_wait_ends_after_its_own_timeout_in_virtual_time() -> None:
    with pytest.raises(WorkerFailed, match=r"waited 2 s for all_reduce SUM .* the timeout of this wait has passed"):
        pr.simulate(waits, 2.0, 5.0, ranks=2)
    assert 1 < (pr.simulate(waits, 30.0, 1.0, ranks=2).summary.virtual_seconds or 0) < 2


def test_each_rank_has_the_environment_that_it_has_set() -> None:
    def program() -> None:
        with group() as (rank, _):
            os.environ["OF_RANK"] = str(rank)
            if rank == 0:
                os.environ["ONLY_FIRST"] = "é"
            dist.barrier()
            assert os.environ["OF_RANK"] == str(rank)
            assert os.environ.get("ONLY_FIRST") == (None if rank else "é")
            os.environ.pop("ONLY_FIRST", None)
            dist.barrier()
            assert "ONLY_FIRST" not in os.environ

    pr.simulate(program, ranks=3)
    assert "OF_RANK" not in os.environ


def test_the_norm_of_a_vector_is_no_operation_that_is_missed() -> None:
    def program() -> None:
        with group():
            model = torch.nn.Linear(4, 1)
            model(torch.ones(2, 4)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    assert "not charged" not in pr.simulate(program, ranks=2).outcome.settings


def both(turns: list[int]) -> None:
    """Take steps of two optimizers in those turns, without and then as a worker of ours."""
    with group():
        models = [torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        for turn in turns:
            models[turn](torch.ones(1, 4)).sum().backward()
            optimizers[turn].step()
        worker = pr.join("allreduce", group=dist.group.WORLD)
        for model, optimizer in zip(models, optimizers, strict=True):
            worker.attach(model, optimizer)
        for turn in turns:
            worker.count(1)
            optimizers[turn].zero_grad()
            models[turn](torch.ones(1, 4)).sum().backward()
            optimizers[turn].step()
        worker.leave()


@pytest.mark.parametrize(
    ("turns", "steps"), [([0, 1] * 4, 4), ([0, 0, 1] * 3, 6), ([0] * 4 + [1] * 4, 7)], ids=["together", "in turns", "one after the other"]
)
def test_two_optimizers_count_as_one_where_they_step_together_and_on_where_one_follows_the_other(turns: list[int], steps: int) -> None:
    run = pr.simulate(both, turns, ranks=2, on=SLOW)
    clocks = [event.clock for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"]
    assert clocks == list(range(1, 2 * steps + 1))
    assert run.summary.steps == 2 * steps
