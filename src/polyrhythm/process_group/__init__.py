"""Polyrhythm as a backend of torch.distributed: importing this module registers it, for tensors on the CPU.

    import polyrhythm.process_group
    torch.distributed.init_process_group("polyrhythm")

Processes of one host then exchange through memory that they share, those of several hosts through authenticated connections.
"""

from polyrhythm.process_group.process_group import PolyrhythmGroup
from polyrhythm.process_group.registration import NAME, register

__all__ = ["NAME", "PolyrhythmGroup", "register"]

register()
