"""Polyrhythm as a backend of torch.distributed: importing this module registers it, for tensors on the CPU.

    import polyrhythm.process_group
    torch.distributed.init_process_group("polyrhythm")

Processes of one host then exchange through memory that they share. A group with members on several hosts uses gloo.
"""

from polyrhythm.process_group.process_group import PolyrhythmGroup
from polyrhythm.process_group.registration import NAME, register

__all__ = ["NAME", "PolyrhythmGroup", "register"]

register()
