"""The checks of data before they are dealt, and the seeds of their readers."""

from __future__ import annotations

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.protocols.shuffle import Source
from polyrhythm.errors import DataError


def count(source: Source, deals: Deals, batch_size: int) -> int:
    """The number of batches that each worker has in an epoch. Raises DataError for data that cannot be sharded."""
    check(source, deals.group, batch_size)
    return deals.size.rule(batch_size, source.drop_last).count(len(source.order), deals.group.size)


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
