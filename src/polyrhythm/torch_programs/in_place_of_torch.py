"""What stands in torch's place while ranks share a process: the state of torch.distributed, its groups and its stores, by thread.

`groups_of_ranks` puts it there for the time of a run. Threads that are no rank find what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from polyrhythm.core.torch_private.distributed import (
    groups_made_by,
    isolated_threads,
    register_group,
    set_group_names,
    waits_of_futures_after,
)
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.process_group.messages.algorithms import MEMBERS
from polyrhythm.process_group.messages.message_group import GroupMembership, MessageGroup
from polyrhythm.torch_programs.group_context import axis_of
from polyrhythm.torch_programs.meeting import MeetingStore, Values
from polyrhythm.torch_programs.ranks import clock, current
from polyrhythm.torch_programs.world import WorldByThread


def backends_of(backend: str) -> str:
    """The backend of tensors on the CPU, of "gloo" or "cpu:gloo,cuda:nccl". Raises CompositionError for one that has no counterpart."""
    name = str(backend or "gloo").lower()
    parts = dict(part.split(":", 1) for part in name.split(",") if ":" in part)
    found = parts.get("cpu", name if not parts else next(iter(parts.values())))
    found = "gloo" if found == "undefined" else found
    if found not in MEMBERS:
        raise CompositionError(f"The backend {backend!r} has no counterpart in virtual time: give one of {', '.join(MEMBERS)}.")
    return found


def make_group(
    group_size: int,
    group_rank: int,
    global_ranks_in_group: list[int],
    backend: Any,
    store: Any,
    group_name: Any,
    backend_options: Any = None,
    timeout: timedelta | None = None,
    pg_tag: str | None = None,
    device_id: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, Any]:
    """A group, as torch's `_new_process_group_helper`, whose parameters these are, for the rank that calls it."""
    rank = current()
    assert rank is not None
    if group_size < 0:  # of "mpi", which starts ranks and knows them
        group_size, group_rank, store = rank.size, rank.rank, _store_at("mpi", group_name)
    if (group_size, group_rank) != (rank.size, rank.rank) and not global_ranks_in_group:
        raise CompositionError(
            f"Process {rank.rank} of {rank.size} calls itself rank {group_rank} of {group_size}: in virtual time "
            "the number of a process is its rank, and all ranks of a program are in one simulation."
        )
    if group_name in rank.world.pg_names.values():
        raise ValueError(f"A group of the name {group_name!r} exists: give another name.")
    if global_ranks_in_group and rank.rank not in global_ranks_in_group:
        return c10d.GroupMember.NON_GROUP_MEMBER, None
    found = backends_of(backend)
    prefixed = dist.PrefixStore(f"{group_name}/", store)  # type: ignore[attr-defined]
    members = global_ranks_in_group or list(range(group_size))
    membership = GroupMembership(str(group_name), axis_of(group_desc), members, group_rank)
    group = MessageGroup(prefixed, rank.desk, membership, timeout or timedelta(minutes=30), MEMBERS[found])
    set_group_names(group, str(group_name), group_desc or "undefined")
    register_group(group, found, prefixed, str(group_name), pg_tag)
    return group, prefixed


def _by_rank(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """`ours` for ranks, `theirs` for other threads. Raises WorkloadError where a program that starts ranks is none itself."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        if current() is None and clock() is not None:
            raise WorkloadError(
                "The program joins a group of torch.distributed in the process that is started once: give --workers N, the number of "
                "ranks, or let all ranks be processes that it starts with torch.multiprocessing."
            )
        return (theirs if current() is None else ours)(*args, **kwargs)

    return chosen


def _store_at(kind: str, *address: object) -> Any:
    rank = current()
    assert rank is not None
    return rank.shared.store(rank.context, (kind, *address))


def _tcp(host_name: str, port: int, *others: Any, timeout: timedelta | None = None, **more: Any) -> Any:
    store = _store_at("tcp", port)
    store.host, store.port = host_name, port
    if timeout is not None:
        store.set_timeout(timeout)
    return store


def _file(path: str, *others: Any) -> Any:
    store = _store_at("file", path)
    store.path = path
    return store


def _not_compiled(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile. Operations of ranks are counted one by one, so that torch leaves their code as it is; "fullgraph" would raise then."""

    def compile_where_it_is_no_rank(model: Any = None, **how: Any) -> Any:
        return theirs(model, **(how if current() is None else how | {"fullgraph": False}))

    return compile_where_it_is_no_rank


def _hash() -> MeetingStore:
    rank = current()
    assert rank is not None
    return MeetingStore(rank.context, Values())


def _settle(enough: Callable[[], bool]) -> None:
    if (rank := current()) is not None:
        rank.desk.settle(enough)


@contextmanager
def groups_of_ranks() -> Iterator[None]:
    """Put it in torch's place for the time of a run."""
    stores: dict[str, Callable[..., Any]] = {"TCPStore": _tcp, "FileStore": _file, "HashStore": _hash}
    with ExitStack() as undo:
        undo.enter_context(isolated_threads())
        undo.enter_context(waits_of_futures_after(_settle))
        undo.enter_context(groups_made_by(WorldByThread, lambda theirs: _by_rank(make_group, theirs)))

        def put(where: Any, name: str, value: Any) -> None:
            before = getattr(where, name)
            setattr(where, name, value)
            undo.callback(setattr, where, name, before)

        put(torch, "compile", _not_compiled(torch.compile))
        for kind, make in stores.items():
            for where in (dist, c10d, import_module("torch.distributed.rendezvous")):
                if hasattr(where, kind):
                    put(where, kind, _by_rank(make, getattr(where, kind)))
        yield
