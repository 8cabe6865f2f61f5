"""Data of workers that leave, are lost and join in the midst of an epoch: nothing is lost, nothing comes twice."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils import data as tools

from polyrhythm.core.protocols.deal_rules import PerRound
from polyrhythm.core.training.data.data import Data
from polyrhythm.core.training.data.data_request import DataRequest
from polyrhythm.shuffle import GlobalShuffle, OwnPace, RingShuffle
from polyrhythm.sources import TarShards

from .changing_crew import Crew, Reads, samples
from .scenes import Counting
from .sharded_sources import Numbers, Uneven

N = 103
DATA = torch.arange(N)


def batches(make: Callable[[], Any], size: int | None = 4, passes: int = 1) -> Reads:
    """A loop over `worker.batches`."""

    def reads(data: Data, port: Any, perform: Any) -> Iterator[Any]:
        mine = data.batches(DataRequest(make(), size, None), port, perform)
        for _ in range(passes):
            yield from mine

    return reads


def own_loader(processes: int) -> Reads:
    """A loop over the user's own loader, with `worker.sampler`."""

    def reads(data: Data, port: Any, perform: Any) -> Iterator[Any]:
        yield from tools.DataLoader(
            Plain(), batch_size=4, sampler=data.sampler(range(N), True, True), num_workers=processes, prefetch_factor=processes or None
        )

    return reads


def shard(data: Data, port: Any, perform: Any) -> Iterator[Any]:
    yield from ([k] for k in data.shard(range(N)))


class Plain(tools.Dataset[Any]):
    """The numbers."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> int:
        return index


def tar(directory: Path) -> TarShards:
    """Eight files of samples with their numbers."""
    for file in range(8):
        with tarfile.open(directory / f"{file}.tar", "w") as archive:
            for k in range(file, N, 8):
                content = str(k).encode()
                member = tarfile.TarInfo(f"{k:04d}.cls")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return TarShards(str(directory / "*.tar"), decode=lambda sample: int(sample["cls"]), buffer=5)


def _same(source: Any) -> Any:
    return source


def numbered(batch: Any) -> list[int]:
    return samples(batch["id"] if isinstance(batch, dict) else batch)


KINDS: dict[str, Callable[[Path], Reads]] = {
    "a data set": lambda path: batches(Plain),
    "tensors": lambda path: batches(lambda: (DATA,)),
    "a loader": lambda path: batches(lambda: tools.DataLoader(Plain(), batch_size=4, shuffle=True), None),
    "a loader with processes": lambda path: batches(lambda: tools.DataLoader(Plain(), batch_size=4, shuffle=True, num_workers=1), None),
    "a stream": lambda path: batches(lambda: Counting(N)),
    "an iterator": lambda path: batches(lambda: iter(range(N))),
    "shards of known length": lambda path: batches(lambda: Numbers(N)),
    "shards of unknown length": lambda path: batches(lambda: Uneven([40, 30, 20, 13])),
    "tar": lambda path: batches(partial(_same, tar(path))),
    "a sampler": lambda path: own_loader(0),
    "a sampler of a loader with processes": lambda path: own_loader(1),
    "a shard": lambda path: shard,
}


CHANGES: dict[str, Callable[[Crew], None]] = {
    "one leaves": lambda crew: crew.change(leave=["worker/1"]),
    "one is lost": lambda crew: crew.change(lost=["worker/0"]),
    "two join": lambda crew: crew.change(join=2),
    "one is lost in a step": lambda crew: (crew.draw(), crew.change(lost=["worker/2"])),  # type: ignore[dict-item]
    "one is lost in a step that others completed": lambda crew: (  # type: ignore[dict-item]
        crew.draw(),
        crew.all["worker/2"].step(),
        crew.change(lost=["worker/2"], completed=True),
    ),
    "one is lost in a step and one joins": lambda crew: (crew.draw(), crew.change(lost=["worker/3"], join=1)),  # type: ignore[dict-item]
    "one change after another": lambda crew: (  # type: ignore[dict-item]
        crew.change(leave=["worker/3"], join=1),
        crew.step(),
        crew.draw(),
        crew.change(lost=["worker/0"]),
        crew.change(join=1),
        crew.step(),
        crew.change(leave=["worker/1"]),
    ),
}


_AGREED = ("shards of unknown length", "tar")
_AT_LEAST_ONCE = "one is lost in a step and one joins"
"""A worker that joins gets a sample again for the step that others are in, where its shard is at its end."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sample_is_used_once_whatever_happens_in_an_epoch(kind: str, change: str, tmp_path: Path) -> None:
    crew = Crew(KINDS[kind](tmp_path), workers=4, talk=kind in _AGREED)
    crew.steps(2)
    CHANGES[change](crew)
    crew.finish()
    found = Counter(k for member in crew.all.values() for batch in member.used for k in numbered(batch))
    again = sum(found.values()) - len(found)
    assert again <= (kind == "shards of unknown length" and change == _AT_LEAST_ONCE)
    assert set(found) <= set(range(N))
    assert N - len(found) < len(crew.names)


@pytest.mark.parametrize("shuffle", [GlobalShuffle(), RingShuffle()], ids=repr)
def test_the_next_epoch_is_dealt_to_those_who_are_there(shuffle: Any) -> None:
    crew = Crew(batches(lambda: (DATA,), passes=2), workers=3, shuffle=shuffle, talk=True)
    crew.draw()
    crew.change(lost=["worker/0", "worker/2"])
    crew.finish()
    found = Counter(crew.used())
    assert sum(found.values()) >= 2 * N - 2
    assert max(found.values()) <= 2


def test_own_orders_continue_where_others_are_lost_and_a_new_worker_has_one_of_its_own() -> None:
    crew = Crew(batches(Plain), workers=3, shuffle=OwnPace())
    crew.steps(2)
    crew.change(lost=["worker/1"], join=1)
    crew.finish()
    assert len({str(member.used) for member in crew.members}) == 3


def test_a_step_keeps_its_samples_where_the_batch_is_that_of_all_workers() -> None:
    def steps(change: Callable[[Crew], None]) -> list[list[int]]:
        crew, found = Crew(batches(Plain), workers=4, size=PerRound(4)), []
        for number in range(6):
            if number == 3:
                change(crew)
            found.append(sorted(k for batch in crew.step() for k in samples(batch)))
            assert sum(member.weights[-1] for member in crew.members) == pytest.approx(len(crew.members))
        return found

    assert steps(lambda crew: crew.change(leave=["worker/1"])) == steps(lambda crew: crew.change(join=2)) == steps(lambda crew: None)


def test_the_number_of_batches_is_that_of_the_present_workers() -> None:
    lengths = []

    def reads(data: Data, port: Any, perform: Any) -> Iterator[Any]:
        mine: Any = data.batches(DataRequest(Plain(), 4, None), port, perform)
        for batch in mine:
            lengths.append(len(mine))
            yield batch

    crew = Crew(reads, workers=2)
    crew.step()
    crew.change(leave=["worker/1"])
    crew.step()
    assert lengths == [13, 13, 26]


def test_a_checkpoint_after_a_change_is_resumed_in_the_same_deal() -> None:
    crew = Crew(batches(lambda: (DATA,)), workers=3)
    crew.steps(2)
    crew.change(lost=["worker/1"])
    crew.steps(2)
    states = {name: crew.all[name].position.export() for name in crew.names}
    resumed = Crew.resumed(crew, states)
    crew.finish()
    resumed.finish()
    for name in crew.names:
        assert [samples(batch) for batch in resumed.all[name].used] == [samples(batch) for batch in crew.all[name].used[4:]]


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_a_checkpoint_is_resumed_by_another_number_of_workers(workers: int) -> None:
    crew = Crew(batches(lambda: (DATA,)), workers=4)
    crew.steps(3)
    states = {name: crew.all[name].position.export() for name in crew.names}
    resumed = Crew.resumed(crew, states, workers)
    resumed.finish()
    found = Counter([*crew.used(), *resumed.used()])
    assert set(found.values()) == {1}
    assert N - len(found) < workers


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, bool, int, int, bool]]:
    """Steps before each change, whether it is in a step, how many are lost, how many join, and whether the step counts."""
    return draw(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 2), st.integers(0, 1), st.booleans()), max_size=4))


@pytest.mark.parametrize("kind", ["tensors", "a stream", "an iterator", "shards of known length", "a shard"])
@settings(max_examples=15, deadline=None)
@given(histories())
@example([(0, True, 0, 1, False), (0, True, 3, 0, False)])  # what is dealt anew to one that joined was read before it came
def test_no_history_loses_a_sample_or_uses_one_twice(kind: str, history: list[tuple[int, bool, int, int, bool]]) -> None:
    crew = Crew(KINDS[kind](Path()), workers=4)
    crew.steps(2)
    for steps, inside, lost, join, completed in history:
        crew.steps(steps)
        if inside:
            crew.draw()
        if N - len(crew.used()) < 8 * (len(crew.names) + 1):
            break  # at the end a worker that joins others in a step would get a sample again
        gone = crew.names[: min(lost, len(crew.names) - 1)]
        if completed and inside:
            for name in gone:
                crew.all[name].step()
        crew.change(lost=gone, join=join, completed=completed and inside)
    crew.finish()
    found = Counter(crew.used())
    assert set(found.values()) == {1}
    assert N - len(found) < len(crew.names)
