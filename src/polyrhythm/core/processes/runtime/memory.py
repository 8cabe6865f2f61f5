"""Memory that actors on one host share, outside of sums."""

from __future__ import annotations

import os
import weakref

from polyrhythm.core.kernel.effects import MemoryBlock, ShareMemory
from polyrhythm.core.processes.transport.addresses import this_host
from polyrhythm.core.shared_memory import SharedBytes
from polyrhythm.errors import CompositionError, RunError


def share(effect: ShareMemory) -> MemoryBlock:
    """New memory, which others can open as long as the block is held here; or another actor's. Raises CompositionError between hosts."""
    here = os.environ.get("POLYRHYTHM_HOST_ID", "") or this_host()
    if not effect.address:
        made = SharedBytes.create(effect.nbytes)
        block = MemoryBlock(made.content, f"{here}|{made.path}", concurrent=True)
        weakref.finalize(block, os.close, made.descriptor)
        return block
    host, _, path = effect.address.partition("|")
    if host != here:
        raise CompositionError(
            f"Workers cannot share memory between hosts, and these are on several ({host} and {here}): start all of them on one host, or "
            "take a system whose workers exchange by messages, such as downpour."
        )
    try:
        return MemoryBlock(SharedBytes.open(path, effect.nbytes).content, effect.address, concurrent=True)
    except RunError as problem:
        raise CompositionError(f"{problem} Take a system whose workers exchange by messages, such as downpour.") from problem
