"""The collectives of the torch backend, in real processes."""

from __future__ import annotations

import collective_laws
import pytest
import torch
import torch.distributed as dist
import torch_ranks
from torch._C._distributed_c10d import AllgatherOptions

import polyrhythm.process_group
from polyrhythm.errors import CompositionError


def compared_with_gloo(rank: int, ranks: int) -> dict[str, str]:
    return torch_ranks.outcomes(collective_laws.like_gloo(ranks))


def by_definition(rank: int, ranks: int) -> dict[str, str]:
    return torch_ranks.outcomes(collective_laws.by_definition(rank, ranks))


def broken(found: list[dict[str, str]]) -> list[tuple[int, str, str]]:
    return [(rank, law, text) for rank, outcomes in enumerate(found) for law, text in outcomes.items() if text]


def test_two_ranks_get_the_same_bits_as_through_gloo_for_every_type_and_operation() -> None:
    found = torch_ranks.run(compared_with_gloo, 2)
    assert len(found[0]) > 60
    assert broken(found) == []


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_gives_what_it_is_defined_to_give(ranks: int) -> None:
    assert broken(torch_ranks.run(by_definition, ranks)) == []


def sub_groups(rank: int, ranks: int) -> list[object]:
    everyone, first, last = dist.new_group(), dist.new_group([0, 1]), dist.new_group([2, 1])
    results: list[object] = [everyone.name(), dist.get_backend()]
    for group, members in ((first, [0, 1]), (last, [1, 2])):
        if rank in members:
            tensor = torch.tensor([float(rank)])
            work = dist.all_reduce(tensor, group=group, async_op=True)
            dist.all_reduce(torch.ones(2), group=group)
            work.wait()
            theirs = torch.tensor([10 * rank])
            dist.broadcast(theirs, members[1], group=group)
            results += [tensor.item(), theirs.item()]
    alone = dist.new_subgroups(1)[0]
    tensor = torch.tensor([3.0])
    dist.all_reduce(tensor, group=alone)
    return [*results, tensor.item()]


def test_sub_groups_keep_to_themselves() -> None:
    names: list[object] = ["polyrhythm", "polyrhythm"]
    assert torch_ranks.run(sub_groups, 3) == [[*names, 1.0, 10, 3.0], [*names, 1.0, 10, 3.0, 20, 3.0], [*names, 3.0, 20, 3.0]]


def refusals(rank: int, ranks: int) -> list[str]:
    errors = []
    alone = dist.new_subgroups(1)[0]
    sparse, nowhere = torch.sparse_coo_tensor([[0]], [1.0], (3,)), torch.ones(6, device="meta")
    bad = (
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.int32), dist.ReduceOp.AVG),
        lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BXOR),
        lambda: dist.group.WORLD.all_gather_single(torch.empty(5), torch.ones(3), AllgatherOptions()),
        lambda: dist.all_to_all_single(torch.empty(3), torch.ones(3), [1, 1], [3, 3]),
        lambda: dist.all_gather([torch.empty(3)], torch.ones(3)),
        lambda: dist.gather(torch.ones(3), [torch.empty(4)], rank, group=alone),
        lambda: dist.scatter(torch.ones(3), [torch.empty(4)], rank, group=alone),
        lambda: dist.broadcast(sparse, 0),
        lambda: dist.reduce(sparse, 0),
        lambda: dist.all_gather([torch.empty(3)] * ranks, sparse),
        lambda: dist.gather(sparse, [torch.empty(3)] * ranks if rank == 0 else None),
        lambda: dist.scatter(sparse, [torch.empty(3)] * ranks if rank == 0 else None),
        lambda: dist.all_reduce(nowhere),
        lambda: dist.all_gather_into_tensor(torch.empty(12), nowhere),
        lambda: dist.reduce_scatter(torch.empty(6), [nowhere] * ranks),
        lambda: dist.reduce_scatter_tensor(torch.empty(3), nowhere),
        lambda: dist.all_to_all_single(torch.empty(6), nowhere),
        lambda: dist.all_to_all([torch.empty(6)] * ranks, [nowhere] * ranks),
    )
    for call in bad:
        with pytest.raises(CompositionError) as caught:
            call()
        errors.append(str(caught.value))
    dist.barrier()
    return errors


def test_what_cannot_be_done_is_refused_before_anyone_waits() -> None:
    errors, again = torch_ranks.run(refusals, 2)
    assert errors == again
    expected = (
        "average",
        "XOR",
        "must have 6",
        "rows",
        "one for each",
        "same size",
        "same size",
        *["sparse"] * 5,
        *["meta"] * 6,
    )
    for text, words in zip(errors, expected, strict=True):
        assert words in text


def test_importing_registers_the_backend_once() -> None:
    before = list(dist.Backend.backend_list)
    polyrhythm.process_group.register()
    assert dist.Backend.backend_list == before
    assert before.count("polyrhythm") == 1
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
