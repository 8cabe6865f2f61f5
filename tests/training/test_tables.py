"""Tables in whole runs: what workers see of each other under stale synchronous parallelism, in both runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from kinds import sampled
from torch import Tensor

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.kernel.group import workers as names
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.simulator import Instant
from polyrhythm.errors import CheckpointError, CompositionError, DivergedError, PolyrhythmError, WorkloadError

from .scenes import go, loop, sgd

CLOCKS, ROWS = 5, 7
UNEVEN = pr.hardware.Fleet((pr.hardware.Profile("measured", (1e-3,)),), (pr.hardware.Mixed((1.0, 0.6, 0.2)), pr.hardware.Jitter(0.5)))
BOUNDED_0 = pr.Strategy(consistency=pr.consistency.Bounded(0), topology=pr.topology.Server(2))
SERVED = [
    name
    for name, preset in systems.SYSTEMS.items()
    if preset().exchange.topology.service is not None and preset().exchange.topology.service.count(2) > 0
]


def over(consistency: Consistency, shards: int = 1) -> pr.Strategy:
    return pr.Strategy(consistency=consistency, topology=pr.topology.Server(shards))


def uneven(seed: int = 0) -> pr.Simulator:
    return pr.Simulator(network="lan", devices=UNEVEN, seed=seed, shuffle_ties=seed)


def counting(slack: int) -> Callable[[Any], None]:
    """Every worker counts its clocks in a row of its own, and all count theirs in the last; it knows what it may see."""

    def train(worker: Any) -> None:
        table = worker.table("counts", rows=ROWS, columns=2, row=pr.tables.DenseRows(torch.int64))
        for clock in range(CLOCKS):
            seen = table.get(range(worker.workers))[:, 0]
            assert int(seen.min()) >= clock - slack, "all that every worker did in its first clock - slack periods"
            assert int(seen[worker.rank]) == clock, "read-my-writes"
            table.inc([worker.rank, ROWS - 1, ROWS - 1], 1)
            assert table.get(worker.rank).tolist() == [clock + 1] * 2
            assert int(table.get(ROWS - 1)[0]) >= 2 * (clock + 1)
            worker.count(1)
            table.clock()
        assert worker.clock == table.clocks == CLOCKS

    return train


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("slack", [0, 1, 3])
def test_a_read_has_all_that_the_bound_promises_and_ones_own_writes_and_each_counts_once(slack: int, shards: int) -> None:
    for seed in range(2):
        run = pr.run(counting(slack), workers=3, strategy=over(pr.consistency.Bounded(slack), shards), on=uneven(seed))
        assert run.weights["counts"][:, 0].tolist() == [CLOCKS] * 3 + [0] * (ROWS - 4) + [6 * CLOCKS]
        assert run.summary.steps == CLOCKS


@pytest.mark.parametrize("name", sampled(SERVED))
def test_every_system_with_servers_keeps_tables(name: str) -> None:
    """Its slack is its own; where updates of several workers are merged together, each worker sees its own before."""
    run = pr.run(counting(CLOCKS), workers=4, strategy=name, on=pr.Simulator(network=Instant()))
    assert run.weights["counts"][:, 1].tolist() == [CLOCKS] * 4 + [0] * (ROWS - 5) + [8 * CLOCKS]


def wandering(worker: Any, cache: int | None = None, row: Any = None) -> None:
    """Increments that depend on what was read, so that a bit that differs once differs in the end."""
    table = worker.table("t", rows=ROWS, columns=3, initial=torch.linspace(-1, 1, 3 * ROWS).view(ROWS, 3), cache=cache, row=row)
    while worker.clock < CLOCKS:
        rows = drawn(worker.rank, worker.clock)
        found = table.get(rows)
        found = found.to_dense() if found.is_sparse else found
        table.inc(rows, 0.1 * torch.sin(7 * found + worker.rank) + 0.01 * table_mean(table, row))
        worker.count(1)
        table.clock()


def drawn(rank: int, clock: int) -> Tensor:
    return torch.randint(0, ROWS, (4,), generator=torch.Generator().manual_seed(100 * rank + clock))


def table_mean(table: pr.Table, row: Any) -> Tensor:
    whole = table.get()
    return (whole.to_dense() if whole.is_sparse else whole).mean()


def in_rank_order(workers: int) -> Tensor:
    """What `wandering` comes to in lockstep, by hand."""
    table = torch.linspace(-1, 1, 3 * ROWS).view(ROWS, 3)
    for clock in range(CLOCKS):
        fresh = table.clone()
        for rank in range(workers):
            rows = drawn(rank, clock)
            own = torch.zeros_like(table).index_add_(0, rows, 0.1 * torch.sin(7 * table[rows] + rank) + 0.01 * table.mean())
            fresh += own
        table = fresh
    return table


def test_without_slack_it_is_bulk_synchronous_to_the_bit_whatever_the_order_and_the_division() -> None:
    expected = in_rank_order(3)
    for strategy in (
        over(pr.consistency.Bounded(0)),
        over(pr.consistency.BulkSynchronous()),
        over(pr.consistency.LocalSteps(1, pr.consistency.Bounded(0)), 2),
        over(pr.consistency.SoftSync(1, pr.consistency.Bounded(0)), 3),
    ):
        for on in (uneven(1), pr.Simulator(network=Instant())):
            assert torch.equal(pr.run(wandering, workers=3, strategy=strategy, on=on).weights["t"], expected)


@pytest.mark.parametrize(
    "strategy", [over(pr.consistency.Bounded(3)), over(pr.consistency.Asynchronous(), 2), over(pr.consistency.BulkSynchronous())], ids=repr
)
def test_one_worker_has_a_tensor(strategy: pr.Strategy) -> None:
    assert torch.allclose(go(wandering, strategy, workers=1).weights["t"], in_rank_order(1), rtol=0, atol=1e-6)


def test_a_bound_on_the_cache_and_sparse_rows_change_no_bit() -> None:
    expected = in_rank_order(2)
    assert torch.equal(go(lambda worker: wandering(worker, cache=2), BOUNDED_0).weights["t"], expected)
    sparse = go(lambda worker: wandering(worker, row=pr.tables.SparseRows()), BOUNDED_0).weights
    whole = torch.sparse_coo_tensor(sparse["t.indices"], sparse["t.values"], expected.shape, check_invariants=True)
    assert torch.equal(whole.to_dense(), expected)


def test_a_cache_holds_no_more_than_its_bound_and_spares_reads() -> None:
    def train(worker: Any, cache: int | None) -> None:
        table = worker.table("t", rows=50, cache=cache)
        for _ in range(3):
            for part in torch.arange(50).split(10):
                table.get(part)
            assert cache is None or len(table._state.cache.store.held) <= cache
        table.clock()

    spared, small = (go(lambda worker, cache=cache: train(worker, cache), "ssp").summary.bytes_sent for cache in (None, 20))
    assert spared < small / 2


def test_two_real_processes_have_the_bits_of_virtual_ones_and_of_a_resumed_run(tmp_path: Path) -> None:
    virtual = go(wandering, BOUNDED_0)
    real = pr.run(wandering, workers=2, strategy=BOUNDED_0, on=pr.Processes(), seed=5, checkpoints=pr.Checkpoints(tmp_path, every=2))
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256
    assert (real.summary.bytes_sent, real.summary.messages_sent) >= (virtual.summary.bytes_sent, virtual.summary.messages_sent)
    again = go(wandering, BOUNDED_0, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000004"))
    assert again.summary.weights_sha256 == virtual.summary.weights_sha256
    assert again.summary.steps == CLOCKS
    with pytest.raises(CheckpointError, match="given 'other', which is not in the checkpoint: it has t"):
        go(lambda worker: worker.table("other", rows=ROWS), BOUNDED_0, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000004"))


@pytest.mark.parametrize("rule", [pr.consistency.Bounded(2), pr.consistency.SoftSync(2)], ids=repr)
@pytest.mark.parametrize("row", [pr.tables.DenseRows(torch.int64), pr.tables.SparseRows(torch.int64)], ids=repr)
def test_a_checkpoint_loses_and_doubles_nothing_whatever_is_under_way(rule: Consistency, row: Any, tmp_path: Path) -> None:
    def train(worker: Any) -> None:
        table = worker.table("t", rows=5, row=row)
        while worker.clock < 8:
            own = table.get([worker.rank])
            assert (own.to_dense() if own.is_sparse else own).item() == worker.clock, "read-my-writes"
            table.inc([worker.rank, 4], torch.ones(2, 1, dtype=torch.int64))
            worker.count(1)
            table.clock()

    def content(**options: Any) -> Tensor:
        run = pr.run(train, workers=4, strategy=over(rule, 2), on=uneven(3), seed=2, **options)
        shown = run.weights.get("t")
        return run.weights["t.values"] if shown is None else shown.view(-1)

    expected = torch.tensor([8, 8, 8, 8, 32])
    assert torch.equal(content(checkpoints=pr.Checkpoints(tmp_path, every=3, keep=9)), expected)
    for step in (3, 6):
        assert torch.equal(content(checkpoints=pr.Checkpoints(resume=tmp_path / f"step-{step:08d}")), expected)


def test_a_table_lies_next_to_a_model_and_changes_nothing_of_it() -> None:
    def train(worker: Any, rows: int) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(10, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))
        model, optimizer = worker.attach(model, sgd(model))
        if rows:
            table = worker.table("seen", rows=rows, row=pr.tables.DenseRows(torch.int32))
            table.inc(worker.rank, 3)
            table.clock()
        loop(worker, model, optimizer)

    for system in ("ssp", "parallax"):
        alone, with_table = go(lambda worker: train(worker, 0), system).weights, go(lambda worker: train(worker, 2), system).weights
        assert with_table.pop("seen").view(-1).tolist() == [3, 3]
        assert alone.keys() == with_table.keys()
        if system == "parallax":
            assert all(torch.equal(alone[name], with_table[name]) for name in alone)


def test_the_result_is_evaluated_at_moments_of_the_grid() -> None:
    def train(worker: Any, row: Any) -> None:
        table = worker.table("t", rows=3, row=row)
        worker.evaluate(lambda content: {"sum": content.sum().item()})
        for _ in range(20):
            table.inc(None, 1.0)
            worker.count(1)
            table.clock()

    for row in (pr.tables.DenseRows(), pr.tables.SparseRows()):
        run = pr.run(
            lambda worker, row=row: train(worker, row),
            workers=2,
            strategy=over(pr.consistency.Bounded(1), 2),
            on=pr.Simulator(devices=UNEVEN),
        )
        sums = [event.metrics["sum"] for event in run.outcome.events if isinstance(event, Evaluated)]
        assert sums == sorted(sums)
        assert len(set(sums)) > 3
        assert run.final == {"sum": 120.0}


def test_who_is_lost_delays_no_other_where_a_run_continues_without_a_worker() -> None:
    def train(worker: Any) -> None:
        table = worker.table("t", rows=1)
        while worker.clock < 20:
            table.inc(0, 1.0)
            worker.count(1)
            table.clock()
            table.get()

    on = pr.Simulator(network="lan", faults=[pr.hardware.Crash("worker/1", 0.004)])
    run = pr.run(train, workers=3, strategy=over(pr.consistency.SoftSync(1)), on=on)
    assert run.summary.lost == [names(2)[1]]
    assert 40 < run.weights["t"].item() < 60


def opened(**settings: Any) -> Callable[[Any], None]:
    def train(worker: Any) -> None:
        table = worker.table("t", **{"rows": 4, "columns": 2, **settings})
        table.get()
        table.clock()

    return train


def used(use: Callable[[Any, pr.Table], object]) -> Callable[[Any], None]:
    return lambda worker: use(worker, worker.table("t", rows=4, columns=2))


@pytest.mark.parametrize(
    ("train", "system", "kind", "message"),
    [
        (opened(), "allreduce", CompositionError, "Tables are kept by servers, and allreduce has none: choose a system with servers"),
        (opened(rows=0), "ssp", WorkloadError, "rows=0: a table has a whole number of rows, 1 or more"),
        (opened(row="dense"), "ssp", WorkloadError, "row='dense': give pr.tables.DenseRows() or pr.tables.SparseRows()"),
        (opened(cache=-1), "ssp", WorkloadError, "cache=-1: give a number of rows, or None"),
        (opened(initial=torch.zeros(3, 2)), "ssp", WorkloadError, "3 initial rows for a table of 4"),
        (used(lambda worker, table: worker.table("t", rows=1)), "ssp", WorkloadError, "the name 't': give each table a different name"),
        (used(lambda worker, table: table.get(4)), "ssp", WorkloadError, "Row 4 was asked of a table of 4 rows: give 0 to 3"),
        (used(lambda worker, table: table.get([0.5])), "ssp", WorkloadError, "give a whole number, or a sequence or tensor"),
        (used(lambda worker, table: table.inc(0, torch.ones(3))), "ssp", WorkloadError, "3 values were given for rows of 2 columns"),
        (used(lambda worker, table: table.inc(0, "one")), "ssp", WorkloadError, "'one' was given to add to rows of a table"),
        (used(lambda worker, table: table.inc([0, 1], torch.ones(3, 2))), "ssp", WorkloadError, "3 rows of values were given for 2 rows"),
        (used(lambda worker, table: (table.clock(), worker.table("u", rows=1))), "ssp", WorkloadError, "after the first step: open every"),
        (used(lambda worker, table: (worker.finish(), table.get())), "ssp", WorkloadError, "after worker.finish"),
        (
            used(lambda worker, table: (table.inc(1, torch.inf), table.clock())),
            "ssp",
            DivergedError,
            "adds to the table 't' is not finite at clock 1",
        ),
        (used(lambda worker, table: worker.table("u", rows=1 + worker.rank)), "ssp", CompositionError, "table 'u' 1 rows of 1 columns"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(train: Any, system: str, kind: type[PolyrhythmError], message: str) -> None:
    with pytest.raises(PolyrhythmError) as caught:
        go(train, system)
    found: BaseException | None = caught.value
    while found is not None and not isinstance(found, kind):
        found = found.__cause__
    assert found is not None, repr(caught.value)
    assert message in str(found)
