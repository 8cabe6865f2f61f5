"""The tokens whose topics a worker holds, in a crew that may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.core.tables.table import Table
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import TokenBatch
from polyrhythm.workloads.topics.owners import owners

Topics = NDArray[np.int32]
NOT_HELD = -1


class Holding:
    """The `topics` of the tokens that a worker holds (tokens,); `worker.keep` has them in checkpoints.

    A table of leased rows counts them by word. Documents belong to workers by `owners`. Before a block of words is drawn, the worker takes
    over the tokens of its documents that nobody holds, and gives up those of documents that are no longer its own: the counts in the
    table stay, and it gets topics for its tokens such that they are counted rightly. What another has yet to give up is taken over when
    this block is drawn the next time. At first nobody holds anything, and all workers know with which topics the table begins.
    """

    def __init__(self, documents: Documents, first: Topics, blocks: int) -> None:
        self.documents, self.first = documents, first
        self.topics = np.full_like(first, NOT_HELD)
        self.name = ""
        self.members: tuple[str, ...] = ()
        self.own = np.zeros(documents.tokens, dtype=np.bool_)
        block_of = documents.words % blocks
        counts = np.bincount(block_of, minlength=blocks)
        self.places = np.split(np.argsort(block_of, kind="stable"), counts.cumsum()[:-1])
        """The tokens of each block of words, ascending."""
        self.batches: dict[int, tuple[Tensor, TokenBatch]] = {}
        """The rows of a block, and its tokens here, where all that belong to this worker are held."""

    def state_dict(self) -> dict[str, Any]:
        """Who holds what."""
        held = (self.topics != NOT_HELD).nonzero()[0]
        return {"name": self.name, "places": torch.from_numpy(held), "topics": torch.from_numpy(self.topics[held])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`. That of another worker is dropped at the next `join`, which says who this one is."""
        self.topics[:] = NOT_HELD
        self.topics[state["places"].numpy()] = state["topics"].numpy()
        self.name, self.members = state["name"], ()

    def join(self, name: str, members: tuple[str, ...]) -> None:
        """Belong to these workers, as the one of this name."""
        if name != self.name:
            self.topics[:] = NOT_HELD
        if name != self.name or members != self.members:
            self.batches.clear()
            mine = owners(self.documents.lengths, members) == members.index(name)
            self.own = np.repeat(mine, self.documents.lengths)
        self.name, self.members = name, members

    def settled(self, block: int, table: Table) -> tuple[Tensor, TokenBatch]:
        """The rows of the words of a block that occur in this worker's documents, and the tokens to draw, all of which it now holds."""
        if block in self.batches:
            return self.batches[block]
        places = self.places[block]
        own, held = self.own[places], self.topics[places] != NOT_HELD
        self._release(table, places[~own & held])
        wanted = places[own & ~held]
        complete = self._adopt(table, wanted) == len(wanted)
        drawn = places[own & (self.topics[places] != NOT_HELD)]
        rows, local = _rows(self.documents.words[drawn], self.documents.vocabulary)
        found = torch.from_numpy(rows), TokenBatch(drawn, local)
        if complete:
            self.batches[block] = found
        return found

    def _release(self, table: Table, places: NDArray[np.int64]) -> None:
        if len(places):
            table.release(*self._counted(places, self.topics, table.columns))
            self.topics[places] = NOT_HELD

    def _adopt(self, table: Table, places: NDArray[np.int64]) -> int:
        """Take over what there is of these tokens, and return how many of them."""
        if not len(places):
            return 0
        rows, wanted = self._counted(places, self.first, table.columns)
        taken = table.adopt(rows, wanted)
        words = self.documents.words[places]
        places = places[np.lexsort((self.first[places], words))]  # by word and topic, as the counts are: what is as wanted stays the same
        found = torch.repeat_interleave(torch.arange(table.columns).repeat(len(rows)), taken.reshape(-1))
        asked, got = wanted.sum(dim=1).numpy(), taken.sum(dim=1).numpy()
        place_in_row = np.arange(len(places)) - np.repeat(asked.cumsum() - asked, asked)
        places = places[place_in_row < np.repeat(got, asked)]
        self.topics[places] = found.numpy()
        return len(places)

    def _counted(self, places: NDArray[np.int64], topics: Topics, width: int) -> tuple[Tensor, Tensor]:
        """The rows of the words of these tokens, and how many of each topic (rows, topics)."""
        rows, local = _rows(self.documents.words[places], self.documents.vocabulary)
        counts = np.bincount(local * np.int64(width) + topics[places], minlength=len(rows) * width)
        return torch.from_numpy(rows), torch.from_numpy(counts).view(len(rows), width)


def _rows(words: NDArray[np.int32], vocabulary: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The different words, ascending, and the place among these of each."""
    there = np.bincount(words, minlength=vocabulary) > 0
    rows = there.nonzero()[0]
    return rows, (there.cumsum() - 1)[words].astype(np.int32)
