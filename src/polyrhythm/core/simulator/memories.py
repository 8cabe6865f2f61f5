"""Memory that virtual actors share: the same tensor for all."""

from __future__ import annotations

import torch

from polyrhythm.core.kernel.effects import MemoryBlock, ShareMemory


class VirtualMemories:
    """The blocks of a run, by address. Actors take turns, so that no write is lost."""

    def __init__(self) -> None:
        self._blocks: dict[str, MemoryBlock] = {}

    def share(self, effect: ShareMemory) -> MemoryBlock:
        """A new block, or the one at an address."""
        if not effect.address:
            address = f"memory/{len(self._blocks)}"
            self._blocks[address] = MemoryBlock(torch.zeros(effect.nbytes, dtype=torch.uint8), address, concurrent=False)
            return self._blocks[address]
        return self._blocks[effect.address]
