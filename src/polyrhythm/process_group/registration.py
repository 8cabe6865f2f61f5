"""The backend of `init_process_group("polyrhythm")`: a group that shares memory, or exchanges messages where its members cannot."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from polyrhythm.core.torch_private.distributed import have_monitored_barriers
from polyrhythm.process_group.engine import Engine
from polyrhythm.process_group.process_group import PolyrhythmGroup
from polyrhythm.process_group.python_group import PythonGroup
from polyrhythm.process_group.rendezvous import rendezvous
from polyrhythm.process_group.within_host import WithinHost

NAME = "polyrhythm"
_log = logging.getLogger(__name__)


def register() -> None:
    """Make the backend known to torch.distributed; a second call changes nothing."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
        have_monitored_barriers(PythonGroup)


def create(options: Any, _unused: object = None) -> PolyrhythmGroup:
    """The group of those who call this with the same store. All come to the same result on whether they share memory."""
    # one store may see several groups of this name, one after another: what the last one wrote there is not for this one
    number = options.store.add(f"meetings/{options.group_rank}", 1)
    store = PrefixStore(f"meeting {number}", options.store)
    names = options.global_ranks_in_group or list(range(options.group_size))
    seconds = options.timeout.total_seconds()
    shared = rendezvous(store, options.group_rank, options.group_size)
    engine: Engine
    if shared.segment is None:
        _log.warning("Not all members of this process group share memory, so they exchange messages: %s", shared.reason)
        engine = _between_hosts(store, options.group_rank, names, seconds)
    else:
        engine = WithinHost(shared, names, seconds)
    return PolyrhythmGroup(options.store, options.group_rank, options.group_size, engine, seconds)


def _between_hosts(store: Store, rank: int, names: Sequence[int], seconds: float) -> Engine:
    from polyrhythm.process_group.between_hosts import BetweenHosts  # takes time to import, and most groups are of one host
    from polyrhythm.process_group.layout import layout_of
    from polyrhythm.process_group.network import network_of

    network = network_of(store, rank, names, seconds)
    layout = layout_of(store, rank, names)
    if rank == 0:
        store.set("topic", secrets.token_hex(4))
    return BetweenHosts(network, f"pg/{store.get('topic').decode()}", layout, seconds)
