"""The backend of `init_process_group("polyrhythm")`: a group that shares memory, or exchanges messages where its members cannot."""

from __future__ import annotations

import logging
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo, Store  # type: ignore[attr-defined]

from polyrhythm.core.torch_private import have_monitored_barriers, number_collectives
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


def create(options: Any, _unused: object = None) -> ProcessGroup | ProcessGroupGloo:
    """The group of those who call this with the same store. All come to the same result on whether they share memory."""
    # one store may see several groups of this name, one after another: what the last one wrote there is not for this one
    number = options.store.add(f"meetings/{options.group_rank}", 1)
    store = PrefixStore(f"meeting {number}", options.store)
    shared = rendezvous(store, options.group_rank, options.group_size)
    if shared.segment is None:
        _log.warning("This process group uses gloo, not shared memory: %s", shared.reason)
        return _gloo(options, PrefixStore("gloo", store))
    names = options.global_ranks_in_group or list(range(options.group_size))
    seconds = options.timeout.total_seconds()
    return PolyrhythmGroup(options.store, options.group_rank, options.group_size, WithinHost(shared, names, seconds), seconds)


def _gloo(options: Any, store: Store) -> ProcessGroupGloo:
    gloo = ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    number_collectives(gloo)
    return gloo
