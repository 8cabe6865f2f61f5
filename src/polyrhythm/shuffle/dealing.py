"""The division of samples among workers: in rounds of equal batches, and the rest evenly."""

from __future__ import annotations

from collections.abc import Iterator

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.shuffle import Source
from polyrhythm.errors import DataError


def deal(count: int, batch_size: int, group: Group, drop_last: bool = False) -> Iterator[slice]:
    """The positions, in an order of `count` samples, of each of a worker's batches; `drop_last` leaves out the smaller last ones."""
    round_size = group.size * batch_size
    for start in range(0, count - count % round_size, round_size):
        begin = start + group.rank * batch_size
        yield slice(begin, begin + batch_size)
    tail = (count % round_size) // group.size
    if tail and not drop_last:
        begin = count - count % round_size + group.rank * tail
        yield slice(begin, begin + tail)


def parts(source: Source, group: Group, number: int, batch_size: int) -> list[list[int]]:
    """The samples in each of a worker's batches of epoch `number`. Raises DataError for data that cannot be sharded."""
    check(source, group, batch_size)
    order = source.order.indices(group.seed, number)
    return [list(order[part]) for part in deal(len(order), batch_size, group, source.drop_last)]


def count(source: Source, group: Group, batch_size: int) -> int:
    """The number of batches that each worker has in an epoch. Raises DataError for data that cannot be sharded."""
    check(source, group, batch_size)
    rounds, rest = divmod(len(source.order), group.size * batch_size)
    return rounds + (rest >= group.size and not source.drop_last)


def loading(group: Group, number: int) -> int:
    """The seed of a worker's data-loading processes in epoch `number`."""
    return rng.derive(group.seed, "loading", group.rank, number)


def reading(group: Group, number: int) -> int:
    """The seed of a stream in epoch `number`: the same at every worker, since all read the same stream."""
    return rng.derive(group.seed, "stream", number)


def check(source: Source, group: Group, batch_size: int) -> None:
    """Raise DataError for data that cannot be sharded over the group."""
    check_size(batch_size)
    samples, workers = len(source.order), group.size
    if samples == 0:
        raise DataError("The data set is empty (its length is 0), so there is nothing to train on: check how it was loaded.")
    if samples < workers:
        raise DataError(f"{samples} samples cannot be sharded over {workers} workers: use at most {samples} workers, or more data.")
    if source.drop_last and samples < workers * batch_size:
        raise DataError(
            f"With drop_last, {samples} samples make no batch of {batch_size} for each of {workers} workers: give a smaller batch_size, "
            f"or leave drop_last out."
        )


def check_size(batch_size: int) -> None:
    """Raise DataError for a batch size below 1."""
    if batch_size < 1:
        raise DataError(
            f"batch_size={batch_size} is not a batch size: give the number of samples that each worker takes per step, 1 or more."
        )
