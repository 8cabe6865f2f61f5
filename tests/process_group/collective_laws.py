"""Laws of the collectives; each is called by every rank of a group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.distributed import ReduceOp

from polyrhythm.errors import CompositionError

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool,
    torch.complex64,
)  # fmt: skip
ARITHMETIC = {"sum": ReduceOp.SUM, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX}
BITWISE = {"and": ReduceOp.BAND, "or": ReduceOp.BOR, "xor": ReduceOp.BXOR}
SIZES = (1, 37, 5_000, 70_001)


def numbers(rank: int, size: int, dtype: torch.dtype) -> Tensor:
    """What rank `rank` brings: everyone can compute what the others have."""
    generator = torch.Generator().manual_seed(1000 * rank + size)
    if dtype.is_complex:
        return torch.randn(size, dtype=dtype, generator=generator)
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 9, (size,), generator=generator).to(dtype)


def operations(dtype: torch.dtype) -> dict[str, ReduceOp.RedOpType]:
    """Those that gloo has for numbers of this type, too."""
    if dtype.is_complex:
        return {"sum": ReduceOp.SUM, "mean": ReduceOp.AVG}
    return ARITHMETIC | ({"mean": ReduceOp.AVG} if dtype.is_floating_point else BITWISE)


def same(a: Tensor, b: Tensor) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert torch.equal(a, b), f"{(a != b).sum()} of {a.numel()} differ, first {a[a != b][:3]} and {b[a != b][:3]}"


def like_gloo(ranks: int) -> dict[str, Callable[[], None]]:
    """Each collective compared with gloo's, on the same numbers: the same bits."""
    gloo = dist.new_group(backend="gloo")
    laws: dict[str, Callable[[], None]] = {}
    for dtype in DTYPES:
        for word, op in operations(dtype).items():
            laws[f"all_reduce {word} {dtype}"] = partial(_reduced_like_gloo, gloo, ranks, dtype, op)
        laws[f"moves {dtype}"] = partial(_moved_like_gloo, gloo, ranks, dtype)
    laws["futures"] = partial(_futures_like_gloo, gloo, ranks)
    return laws


def _reduced_like_gloo(gloo: dist.ProcessGroup, ranks: int, dtype: torch.dtype, op: ReduceOp.RedOpType) -> None:
    for size in SIZES:
        results = []
        for group in (None, gloo):
            whole = numbers(dist.get_rank(), size, dtype)
            dist.all_reduce(whole, op, group=group)
            rooted = numbers(dist.get_rank(), size, dtype)
            dist.reduce(rooted, 0, op, group=group)
            results.append((whole, rooted if dist.get_rank() == 0 else whole))
        for ours, theirs in zip(*results, strict=True):
            same(ours, theirs)
    if dtype.is_complex:
        return
    parts = []
    for group in (None, gloo):
        parts.append(torch.empty(1001, dtype=dtype))
        dist.reduce_scatter_tensor(parts[-1], numbers(dist.get_rank(), 1001 * ranks, dtype), op, group=group)
    same(*parts)


def _moved_like_gloo(gloo: dist.ProcessGroup, ranks: int, dtype: torch.dtype) -> None:
    results = []
    for group in (None, gloo):
        own = numbers(dist.get_rank(), 4 * ranks, dtype)
        spread = [torch.empty_like(own) for _ in range(ranks)]
        dist.all_gather(spread, own, group=group)
        sent = own.clone()
        dist.broadcast(sent, ranks - 1, group=group)
        exchanged = torch.empty_like(own)
        dist.all_to_all_single(exchanged, own, group=group)
        whole = torch.empty(4 * ranks * ranks, dtype=dtype)
        dist.all_gather_into_tensor(whole, own, group=group)
        results.append([*spread, sent, exchanged, whole])
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs)


def _futures_like_gloo(gloo: dist.ProcessGroup, ranks: int) -> None:
    own, whole = torch.ones(2 * ranks), [torch.empty(2 * ranks) for _ in range(ranks)]
    parts = [torch.ones(2) for _ in range(ranks)]
    calls: dict[str, Callable[[dist.ProcessGroup | None], dist.Work]] = {
        "all_reduce": lambda group: dist.all_reduce(own, group=group, async_op=True),
        "broadcast": lambda group: dist.broadcast(own, 0, group=group, async_op=True),
        "all_gather": lambda group: dist.all_gather(whole, own, group=group, async_op=True),
        "gather": lambda group: dist.gather(own, whole if dist.get_rank() == 0 else None, 0, group=group, async_op=True),
        "all_to_all_single": lambda group: dist.all_to_all_single(torch.empty(2 * ranks), own, group=group, async_op=True),
        "all_to_all": lambda group: dist.all_to_all([torch.empty(2) for _ in parts], parts, group=group, async_op=True),
    }
    for name, call in calls.items():
        ours, theirs = (_shapes(call(group).get_future().wait()) for group in (None, gloo))
        assert ours == theirs, f"{name}: {ours} and {theirs}"
    gathered = dist.all_gather_into_tensor(torch.empty(2 * ranks * ranks), own, async_op=True).get_future().wait()
    assert _shapes(gathered) == [(2 * ranks * ranks,)]  # which gloo cuts into one for each rank
    part = dist.reduce_scatter_tensor(torch.empty(2), own, async_op=True).get_future().wait()
    assert _shapes(part) == [(2,)]  # for which gloo has no future


def _shapes(value: object) -> object:
    return tuple(value.shape) if isinstance(value, Tensor) else [_shapes(each) for each in value]  # type: ignore[attr-defined]


def by_definition(rank: int, ranks: int) -> dict[str, Callable[[], None]]:
    """Each collective against what it is defined to give."""
    named = (
        sums_in_rank_order, lists_of_unequal_sizes, gathers_and_scatters, unequal_all_to_all, strides_and_scalars, coalesced,
        splits_at_some_ranks,
        asynchronous_in_order, futures, functional_collectives, objects, messages, wrappers, empty_tensors, parameters,
    )  # fmt: skip
    return {law.__name__: partial(law, rank, ranks) for law in named}


def sums_in_rank_order(rank: int, ranks: int) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        for size in SIZES:
            total = numbers(0, size, dtype)
            for other in range(1, ranks):
                total = total + numbers(other, size, dtype)
            own = numbers(rank, size, dtype)
            dist.all_reduce(own)
            same(own, total)
            rooted = numbers(rank, size, dtype)
            dist.reduce(rooted, ranks - 1)
            same(rooted, total if rank == ranks - 1 else numbers(rank, size, dtype))


def lists_of_unequal_sizes(rank: int, ranks: int) -> None:
    outputs = [torch.empty(5 + each) for each in range(ranks)]
    dist.all_gather(outputs, numbers(rank, 5 + rank, torch.float32))
    for each, output in enumerate(outputs):
        same(output, numbers(each, 5 + each, torch.float32))
    owns = [numbers(10 * rank + part, 5 + part, torch.float64) for part in range(ranks)]
    output = torch.empty(5 + rank, dtype=torch.float64)
    dist.reduce_scatter(output, owns)
    torch.testing.assert_close(output, sum(numbers(10 * each + rank, 5 + rank, torch.float64) for each in range(ranks)))


def gathers_and_scatters(rank: int, ranks: int) -> None:
    for root in range(ranks):
        outputs = [torch.empty(3, 4) for _ in range(ranks)] if rank == root else None
        dist.gather(numbers(rank, 12, torch.float32).view(3, 4), outputs, root)
        for each, output in enumerate(outputs or []):
            same(output, numbers(each, 12, torch.float32).view(3, 4))
        pieces = [numbers(100 * root + part, 7, torch.int32) for part in range(ranks)] if rank == root else None
        piece = torch.empty(7, dtype=torch.int32)
        dist.scatter(piece, pieces, root)
        same(piece, numbers(100 * root + rank, 7, torch.int32))


def unequal_all_to_all(rank: int, ranks: int) -> None:
    for size, kind in ((1, torch.float32), (1, torch.bool), (3, torch.int16), (20_000, torch.float32), (50_001, torch.int16)):
        unequal_all_to_all_of(rank, ranks, size, kind)


def unequal_all_to_all_of(rank: int, ranks: int, size: int, kind: torch.dtype) -> None:
    """Those of small sizes go another way than large ones."""
    inputs = [numbers(10 * rank + to, size * (3 * rank + to), kind) for to in range(ranks)]
    outputs = [torch.empty(size * (3 * sender + rank), 2, dtype=kind)[:, 0] for sender in range(ranks)]
    dist.all_to_all(outputs, inputs)
    for sender, output in enumerate(outputs):
        same(output, numbers(10 * sender + rank, size * (3 * sender + rank), kind))
    sent, received = [len(each) for each in inputs], [len(each) for each in outputs]
    rows = torch.empty(sum(received), 2, dtype=kind)
    dist.all_to_all_single(rows, torch.cat(inputs)[:, None].expand(-1, 2), received, sent)
    same(rows, torch.cat(outputs)[:, None].expand(-1, 2))


def splits_at_some_ranks(rank: int, ranks: int) -> None:
    for given in range(ranks):
        output, splits = torch.empty(2 * ranks), [2] * ranks if rank == given else None
        dist.all_to_all_single(output, torch.full((2 * ranks,), float(rank)), splits, splits)
        same(output, torch.arange(float(ranks)).repeat_interleave(2))


def strides_and_scalars(rank: int, ranks: int) -> None:
    skewed = torch.full((6, 4), float(rank)).t()
    dist.all_reduce(skewed)
    same(skewed, torch.full((4, 6), float(sum(range(ranks)))))
    every_other = torch.full((10,), float(rank))
    dist.broadcast(every_other[::2], 1)
    same(every_other, torch.tensor([1.0, rank] * 5))
    scalar = torch.tensor(float(rank + 1))
    dist.all_reduce(scalar, ReduceOp.PRODUCT)
    assert scalar.item() == torch.arange(1.0, ranks + 1).prod()
    whole = torch.empty(2, 3 * ranks).t()
    dist.all_gather_into_tensor(whole, torch.full((3, 2), float(rank)))
    same(whole, torch.arange(float(ranks)).repeat_interleave(3)[:, None].expand(-1, 2))
    leaf = torch.ones(4, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.tolist() == [ranks] * 4
    assert leaf.grad_fn is None


def coalesced(rank: int, ranks: int) -> None:
    tensors = [numbers(rank, size, torch.float32) for size in (3, 5000)]
    with dist._coalescing_manager() as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert manager.works == [] or all(work.is_completed() for work in manager.works)
    for size, tensor in zip((3, 5000), tensors, strict=True):
        torch.testing.assert_close(tensor, sum(numbers(each, size, torch.float32) for each in range(ranks)))


def asynchronous_in_order(rank: int, ranks: int) -> None:
    tensors = [torch.full((1000 * (k + 1),), float(rank + k)) for k in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    last = torch.full((3,), float(rank))
    dist.all_reduce(last)
    assert all(work.is_completed() for work in works), "what was issued before is done before"
    assert all(work.wait() and work.is_success() for work in works)
    for k, tensor in enumerate(tensors):
        assert tensor.unique().tolist() == [sum(range(ranks)) + k * ranks]
    assert last.tolist() == [sum(range(ranks))] * 3
    dist.barrier(async_op=True).wait()


def futures(rank: int, ranks: int) -> None:
    work = dist.all_reduce(torch.full((3,), float(rank)), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    assert doubled.tolist() == [2 * sum(range(ranks))] * 3
    assert work.result()[0].tolist() == [sum(range(ranks))] * 3
    done = dist.group.WORLD.allreduce([torch.ones(2)])
    assert done.get_future().wait()[0].tolist() == [ranks] * 2


def functional_collectives(rank: int, ranks: int) -> None:
    group = dist.group.WORLD
    own = torch.full((2 * ranks,), float(rank))
    same(functional.all_reduce(own, "avg", group) + 0, torch.full((2 * ranks,), sum(range(ranks)) / ranks))
    whole = functional.all_gather_tensor(own, 0, group) + 0
    same(whole, torch.arange(float(ranks)).repeat_interleave(2 * ranks))
    part = functional.reduce_scatter_tensor(own, "sum", 0, group) + 0
    same(part, torch.full((2,), float(sum(range(ranks)))))
    exchanged = functional.all_to_all_single(own, [2] * ranks, [2] * ranks, group) + 0
    same(exchanged, torch.arange(float(ranks)).repeat_interleave(2))
    sums = functional.all_reduce_coalesced([own, own * 2], "sum", group)
    assert [each[0].item() for each in sums] == [sum(range(ranks)), 2 * sum(range(ranks))]
    same(functional.broadcast(own, 1, group) + 0, torch.ones(2 * ranks))


def objects(rank: int, ranks: int) -> None:
    gathered: list[object] = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank * 100})
    assert gathered == [{"rank": each, "text": "x" * each * 100} for each in range(ranks)]
    objects = [("from", 1), rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(objects, 1)
    assert objects == [("from", 1), 1]
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [f"for {each}" for each in range(ranks)] if rank == 0 else None, 0)
    assert mine == [f"for {rank}"]


def messages(rank: int, ranks: int) -> None:
    received = torch.empty(5)
    sending = dist.isend(torch.full((5,), float(rank)), (rank + 1) % ranks)
    dist.recv(received, (rank - 1) % ranks)
    sending.wait()
    assert received.tolist() == [(rank - 1) % ranks] * 5
    large, room = torch.full((500_000,), float(rank)), torch.empty(500_000)
    sending = dist.isend(large, (rank + 1) % ranks, tag=2)  # longer than what is kept between two ranks
    dist.barrier()  # which is reached although the send is not done
    small = torch.empty(1)
    to = dist.isend(torch.tensor([float(rank)]), (rank + 1) % ranks, tag=1)
    assert dist.recv(small, tag=1) == (rank - 1) % ranks
    assert small.item() == (rank - 1) % ranks
    dist.recv(room, (rank - 1) % ranks, tag=2)
    for work in (sending, to):
        work.wait()
    assert room.unique().tolist() == [(rank - 1) % ranks]
    rooms = [torch.empty(3) for _ in range(ranks)]
    others = [other for other in range(ranks) if other != rank]
    operations = [dist.P2POp(dist.isend, torch.full((3,), float(rank)), other) for other in others]
    operations += [dist.P2POp(dist.irecv, rooms[other], other) for other in others]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert [rooms[other][0].item() for other in others] == others
    with pytest.raises(CompositionError):
        dist.send(torch.sparse_coo_tensor([[0]], [1.0], (3,)), others[0])


def wrappers(rank: int, ranks: int) -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    both = TwoTensor(torch.ones(3), torch.full((3,), 2.0))
    dist.all_reduce(both)
    dist.broadcast(both, 0)
    assert both.a.tolist() == [ranks] * 3
    assert both.b.tolist() == [2 * ranks] * 3
    whole = TwoTensor(torch.empty(3 * ranks), torch.empty(3 * ranks))
    dist.all_gather_single(whole, both)
    assert whole.a.tolist() == [ranks] * 3 * ranks
    assert whole.b.tolist() == [2 * ranks] * 3 * ranks
    dist.reduce_scatter_single(both, whole)
    assert both.b.tolist() == [2 * ranks**2] * 3
    with pytest.raises(CompositionError, match="TwoTensor"):
        dist.reduce(both, 0)


def empty_tensors(rank: int, ranks: int) -> None:
    nothing = torch.empty(0)
    dist.all_reduce(nothing)
    dist.broadcast(nothing, 0)
    dist.all_gather([torch.empty(0) for _ in range(ranks)], nothing)
    dist.all_gather_into_tensor(torch.empty(0), nothing)
    dist.reduce_scatter_tensor(torch.empty(0), nothing)
    dist.all_to_all([torch.empty(0)] * ranks, [nothing] * ranks)


def parameters(rank: int, ranks: int) -> None:
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (ranks,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1.0] * ranks
    weight = torch.nn.Parameter(torch.full((4, 4), float(rank)))
    with torch.no_grad():
        dist.broadcast(weight, 1)
    assert weight.unique().tolist() == [1.0]
