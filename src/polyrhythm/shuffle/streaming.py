"""Batches of a stream that every worker reads: in rounds of which each worker takes its part."""

from __future__ import annotations

from collections.abc import Iterator

from polyrhythm.core import rng
from polyrhythm.core.protocols.deal_rules import AsRead
from polyrhythm.core.protocols.deals import PassDeals
from polyrhythm.core.protocols.shuffle import Batch, SampleStream
from polyrhythm.core.protocols.stream_rounds import OpenedStream, StreamReader, read_rounds
from polyrhythm.errors import DataError
from polyrhythm.shuffle.dealing import check_size, reading


def dealt_stream(stream: SampleStream, deals: PassDeals, batch_size: int, first: int) -> Iterator[Batch]:
    """One worker's batches of a pass through `stream`. Raises DataError for a stream of fewer samples than workers.

    After a change, a stream that can be read again is, as far as samples are needed that were passed. From an iterator those of the last
    round are still there, and earlier ones, which only a worker that was behind in an asynchronous system had, are left out.
    """
    check_size(batch_size)
    rule = AsRead(deals.size.rule(batch_size, stream.drop_last))
    if deals.reading is None:
        seed = reading(deals.group, deals.number)
        deals.reading = StreamReader(lambda: _opened(stream, seed), stream.once)
    reader, dealt_any = deals.reading, bool(deals.ended)
    for share in deals.shares(deals.length, rule, first):
        if share.stop is not None:  # a deal that has ended: its batches were used, and nothing is read for them
            yield from ((0, None) for _ in range(share.start, share.stop))
            continue
        for samples, weight in read_rounds(reader, share, deals, rule):
            dealt_any, deals.weight = True, weight
            yield stream.batch(samples)
    if not dealt_any:
        raise DataError(_too_short(reader.position, deals.group.size, batch_size, stream.drop_last))


def _opened(stream: SampleStream, seed: int) -> OpenedStream:
    apart = rng.Apart(seed)
    return stream.elements(seed), lambda: apart


def _too_short(read: int, workers: int, batch_size: int, drop_last: bool) -> str:
    if read == 0:
        return (
            "The stream is empty, so there is nothing to train on: check how it was opened. An iterator or a generator can be read only "
            "once: give an IterableDataset, or make it anew for each epoch."
        )
    if drop_last and read >= workers:
        return (
            f"drop_last leaves no batch of a stream of {read} samples, which are fewer than {batch_size} for each of {workers} "
            f"workers: take a smaller batch_size, or leave drop_last out."
        )
    return f"A stream of {read} samples cannot be sharded over {workers} workers: use at most {read} workers, or more data."
