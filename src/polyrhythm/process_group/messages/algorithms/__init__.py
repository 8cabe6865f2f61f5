"""How the collectives of each backend communicate: `MEMBERS`, by its name. A law holds each to the rounds and bytes of its `costs`."""

from __future__ import annotations

from polyrhythm.process_group.messages.algorithms.gloo import GlooAlgorithms
from polyrhythm.process_group.messages.algorithms.nccl import NcclAlgorithms
from polyrhythm.process_group.messages.algorithms.own import OwnAlgorithms
from polyrhythm.process_group.messages.algorithms.protocol import Algorithms as Algorithms

OWN = OwnAlgorithms()
MEMBERS: dict[str, Algorithms] = {"gloo": GlooAlgorithms(), "nccl": NcclAlgorithms(), "polyrhythm": OWN, "mpi": OWN}
