"""What a member of a process group issues: compared with what the others issue, and named with its line where they differ."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch
from torch.distributed import DistBackendError

from polyrhythm.core.kernel.names import rank_of
from polyrhythm.errors import RunError

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).resolve().parents[2])
_NOT_THEIRS = (_TORCH, _OURS, threading.__file__, "<frozen")
NOWHERE = "the backward pass"
"""The place of a call that no line of the user's has made."""


@dataclass(frozen=True, slots=True)
class IssuedCall:
    """What all members must issue alike: `kind` ("all_reduce SUM") `of` tensors ("float32 [16]"); in which group, and where this one did.

    `number` is the number of collectives that the group has issued before, and this one if it is one.
    """

    kind: str
    of: str
    group: str
    members: tuple[str, ...]
    number: int
    where: str
    axis: str = ""
    """The mesh axis of the group, or how torch describes it."""
    collective: bool = True

    @property
    def what(self) -> str:
        """The whole."""
        return f"{self.kind} {self.of}".rstrip()

    @property
    def ranks(self) -> list[int]:
        """The members, by their ranks in the whole job."""
        return [rank_of(name) for name in self.members]

    @property
    def signature(self) -> str:
        """What travels with each message."""
        return f"{self.what}\n{self.where}"

    def compare(self, theirs: str, rank: int, source: int) -> None:
        """Raise RunError if this is of `rank`, and `source`, another rank of the whole job, has issued something else."""
        what, _, where = theirs.partition("\n")
        if what != self.what:
            raise RunError(
                f"The ranks of group {self.group!r} disagree at collective {self.number}: rank {rank} issues {self.what} at {self.where}, "
                f"and rank {source} {what} at {where}. All ranks must issue the same collectives in the same order."
            )

    def late(self, rank: int, whom: str, seconds: float | None) -> Exception:
        """The error of `rank`, which has waited so long for others, as torch's groups raise it."""
        return DistBackendError(
            f"Rank {rank} has waited {seconds:g} s in {self.what} at {self.where} for {whom}: the timeout of {self.group!r} has passed."
        )

    def late_wait(self, rank: int, seconds: float) -> Exception:
        """The error of `rank`, whose wait for it was to end within so many seconds."""
        return DistBackendError(
            f"Rank {rank} has waited {seconds:g} s for {self.what} at {self.where}: the timeout of this wait has passed."
        )


def line_of_caller() -> str:
    """The line of the user's code that issues a collective: the innermost that is neither torch's nor ours."""
    frame: FrameType | None = sys._getframe(1)
    innermost = frame
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_NOT_THEIRS):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return NOWHERE if innermost is not None else ""


def line_of_direct_caller() -> str:
    """The line of the user's code that calls a function of torch which is ours meanwhile; "" where torch itself calls it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith((_TORCH, "<frozen")):
        return ""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
