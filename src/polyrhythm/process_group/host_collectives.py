"""Collectives of a process group with members on several hosts, each of which returns when the part of this rank is done.

Where every host has as many members, sums, gathers and broadcasts of equal sizes go through memory within a host, and over the network
between members of the same place in their hosts: each byte crosses the network as often as with one member for each host, over as many
connections as a host has members (hierarchical all-reduce; Goyal et al., 2017, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.collectives import flattened
from polyrhythm.process_group.layout import HostLayout
from polyrhythm.process_group.messages.algorithms import OWN
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.messages.collectives import MessageCollectives
from polyrhythm.process_group.messages.party import BytesSent, Doing, Party
from polyrhythm.process_group.operations import Reduction

Complete = Callable[[Coroutine[Effect[Any], Any, Any]], Any]


class HostCollectives:
    """Those of the rank of `layout`; `complete` runs a coroutine to its end, and `call` describes what is issued."""

    def __init__(
        self,
        layout: HostLayout,
        port: Port,
        members: tuple[str, ...],
        complete: Complete,
        call: Callable[[str, Sequence[Tensor]], IssuedCall],
    ) -> None:
        self._layout, self._port, self._members, self._complete, self._call = layout, port, members, complete, call
        self._count = 0
        self._row = next((host for host in layout.hosts if layout.rank in host), ())
        self._place = self._row.index(layout.rank) if self._row else 0
        self._column = tuple(host[self._place] for host in layout.hosts)

    def reduce_all(self, tensors: Sequence[Tensor], how: Reduction) -> None:
        if self._layout.memory is None:
            return self._all("all_reduce", tensors, lambda made: made.reduce_all(tensors, how), how)
        flat = _joined([how.scaled(flattened(tensor)) for tensor in tensors])
        local = self._layout.memory
        each = -(-flat.numel() // local.ranks)
        padded = torch.nn.functional.pad(flat, (0, each * local.ranks - flat.numel()))
        part = torch.empty(each, dtype=flat.dtype)
        local.reduce_scatter(padded, part, how.operation)
        sums = Reduction(how.operation, False)
        part = self._complete(OWN.all_reduce(self._between("all_reduce", tensors, how), part, sums))
        local.gather(part.contiguous(), padded)
        return _fill(tensors, how.finish(padded[: flat.numel()], len(self._members)))

    def scatter_reduced(self, pairs: Sequence[tuple[Tensor, Tensor]], how: Reduction) -> None:
        outputs = [output for output, _ in pairs]
        if self._layout.memory is None:
            return self._all("reduce_scatter", outputs, lambda made: made.scatter_reduced(pairs, how), how)
        for output, own in pairs:
            rows = how.scaled(flattened(own)).view(len(self._members), -1)
            ordered = torch.cat([rows[host[place]] for place in range(len(self._row)) for host in self._layout.hosts])
            part = torch.empty(len(self._layout.hosts) * output.numel(), dtype=ordered.dtype)
            self._layout.memory.reduce_scatter(ordered, part, how.operation)
            pieces = list(part.view(len(self._layout.hosts), -1))
            sums = Reduction(how.operation, False)
            total = self._complete(OWN.reduce_scatter(self._between("reduce_scatter", outputs, how), pieces, sums))
            _fill([output], how.finish(total, len(self._members)))
        return None

    def gather_flat(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        outputs = [output for output, _ in pairs]
        if self._layout.memory is None:
            return self._all("all_gather", outputs, lambda made: made.gather_flat(pairs))
        for output, own in pairs:
            column = torch.cat(self._complete(OWN.all_gather(self._between("all_gather", outputs), flattened(own).view(-1))))
            everyones = torch.empty(len(self._members), own.numel(), dtype=own.dtype)
            self._layout.memory.gather(column, everyones)
            order = [host[place] for place in range(len(self._row)) for host in self._layout.hosts]
            whole = torch.empty_like(everyones)
            whole[torch.tensor(order)] = everyones
            _fill([output], whole.view(-1))
        return None

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        local = self._layout.memory
        if local is None:
            return self._all("broadcast", tensors, lambda made: made.broadcast(tensors, root), root)
        flat = _joined([flattened(tensor) for tensor in tensors])
        host = next(index for index, members in enumerate(self._layout.hosts) if root in members)
        place = self._layout.hosts[host].index(root)
        if self._place == place:
            [flat] = self._complete(OWN.broadcast(self._between("broadcast", tensors, root), [flat], host))
        else:
            self._count += 1
        local.broadcast(flat, place)
        return None if self._layout.rank == root else _fill(tensors, flat)

    def barrier(self) -> None:
        if self._layout.memory is not None:
            self._layout.memory.barrier()
            self._complete(OWN.barrier(self._between("barrier", [])))
        else:
            self._all("barrier", [], lambda made: made.barrier())

    def sum_sparse(self, tensors: Sequence[Tensor]) -> None:
        self._all("all_reduce of sparse tensors", [], lambda made: made.sum_sparse(tensors))

    def reduce_to(self, tensors: Sequence[Tensor], how: Reduction, root: int) -> None:
        self._all("reduce", tensors, lambda made: made.reduce_to(tensors, how, root), how, root)

    def gather_lists(self, lists: Sequence[Sequence[Tensor]], owns: Sequence[Tensor]) -> None:
        self._all("all_gather", [output for outputs in lists for output in outputs], lambda made: made.gather_lists(lists, owns))

    def gather_to(self, outputs: Sequence[Tensor], own: Tensor, root: int) -> None:
        self._all("gather", [own], lambda made: made.gather_to(outputs, own, root), root)

    def scatter(self, output: Tensor, pieces: Sequence[Tensor], root: int) -> None:
        self._all("scatter", [output], lambda made: made.scatter(output, pieces, root), root)

    def scatter_reduced_list(self, output: Tensor, owns: Sequence[Tensor], how: Reduction) -> None:
        self._all("reduce_scatter", owns, lambda made: made.scatter_reduced_list(output, owns, how), how)

    def exchange_lists(self, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        self._all("all_to_all", [], lambda made: made.exchange_lists(outputs, owns))

    def exchange_rows(self, whole: tuple[Tensor, Tensor], outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        self._all("all_to_all", [], lambda made: made.exchange_lists(outputs, owns))

    def _all(self, name: str, tensors: Sequence[Tensor], do: Callable[[MessageCollectives], Doing], *alike: object) -> None:
        """Do it with messages between all members."""
        party = self._party(self._members, self._layout.rank, "all", name, tensors, *alike)
        self._complete(do(MessageCollectives(party, OWN)))

    def _between(self, name: str, tensors: Sequence[Tensor], *alike: object) -> Party:
        """The members of this place in all hosts."""
        members = tuple(self._members[rank] for rank in self._column)
        return self._party(members, self._column.index(self._layout.rank), f"place {self._place}", name, tensors, *alike)

    def _party(self, members: tuple[str, ...], rank: int, part: str, name: str, tensors: Sequence[Tensor], *alike: object) -> Party:
        self._count += 1
        call = replace(self._call(" ".join([name, *map(str, alike)]), tensors), members=members)
        return Party(self._port, members, rank, f"{call.group}/{part}/{self._count}", call, BytesSent())


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    lines = [tensor.view(-1) for tensor in tensors]
    return lines[0] if len(lines) == 1 else torch.cat(lines)


def _fill(tensors: Sequence[Tensor], value: Tensor) -> None:
    """Write `value` (numel,) into `tensors`, one after another."""
    for tensor, piece in zip(tensors, torch.split(value, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.data.copy_(piece.view(tensor.shape))
