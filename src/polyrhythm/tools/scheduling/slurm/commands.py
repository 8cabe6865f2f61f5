"""What SLURM's commands say, and what they are told: sinfo, squeue, sacct, sbatch, scancel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from shutil import which

from polyrhythm.errors import CompositionError

_SECONDS = 60.0
_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
_FLAGS = "*~#!%$@^-"
"""Signs that sinfo adds to a state, of which only "*" matters here: the node does not answer."""
_LOST = ("DOWN", "FAIL", "UNKNOWN", "ERROR", "FUTURE", "NO_RESPOND", "POWERED_DOWN")
_OPEN = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED")
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT")
"""The states of a job that has ended (squeue's manual, "Job state codes")."""
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
"""Those of one that has not begun."""
TAKEN_AWAY = ("NODE_FAIL", "PREEMPTED", "REVOKED", "BOOT_FAIL")
"""Those of a job that has ended by no fault of its own."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as sinfo has it: `lost`, or `closed` to new jobs, or neither."""

    word: str
    lost: bool
    closed: bool


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as squeue has it: its state, the comment that it was submitted with, and why it waits."""

    state: str
    comment: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The number of a job that sbatch has taken, or why it has not."""

    number: str | None
    refusal: str = ""


class SlurmCommands:
    """The commands of the SLURM that this host belongs to. Raises CompositionError where they are not installed."""

    def __init__(self) -> None:
        for name in _COMMANDS:
            if which(name) is None:
                raise CompositionError(f"There is no command {name!r} here: run this where SLURM's commands are, such as a login node.")

    def nodes(self) -> dict[str, NodeState] | None:
        """The nodes by name; None where SLURM does not answer."""
        said = _said(["sinfo", "--noheader", "--Node", "--format=%N %T"])
        if said is None:
            return None
        return {name: _node_state(state.strip()) for name, _, state in (line.partition(" ") for line in said.splitlines())}

    def states(self) -> dict[str, QueuedJob] | None:
        """The user's jobs that SLURM still keeps, by number; None where it does not answer."""
        said = _said(["squeue", "--noheader", "--states=all", f"--user={getuser()}", "--format=%A|%T|%k|%r"])
        if said is None:
            return None
        lines = [line.split("|", 3) for line in said.splitlines() if line.strip()]
        return {number: QueuedJob(state, comment, reason) for number, state, comment, reason in lines}

    def accounted(self, numbers: Collection[str]) -> dict[str, tuple[str, int]]:
        """State and exit status of those of these jobs that the accounting knows; negative for a signal."""
        if not numbers or which("sacct") is None:
            return {}
        asked = f"--jobs={','.join(sorted(numbers))}"
        said = _said(["sacct", "--noheader", "--parsable2", "--allocations", asked, "--format=JobIDRaw,State,ExitCode"])
        found = {}
        for line in (said or "").splitlines():
            number, state, status = line.split("|")
            code, _, signal = status.partition(":")
            found[number] = (state.split()[0], int(code) or -int(signal or 0))
        return found

    def submit(self, script: str, environment: Mapping[str, str]) -> Submitted:
        """Have sbatch take a script; its jobs have these variables too."""
        try:
            done = subprocess.run(
                ["sbatch", "--parsable", "--export=ALL"],
                input=script,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Submitted(None, f"sbatch has not answered within {_SECONDS:g} seconds")
        if done.returncode:
            return Submitted(None, " ".join(done.stderr.split()) or f"sbatch ended with exit code {done.returncode}")
        return Submitted(done.stdout.strip().partition(";")[0])

    def cancel(self, numbers: Collection[str]) -> bool:
        """End these jobs; those that have ended already are no error."""
        return not numbers or _said(["scancel", *sorted(numbers)]) is not None


def _node_state(word: str) -> NodeState:
    state = word.rstrip(_FLAGS).upper()
    lost = state.startswith(_LOST)
    return NodeState(word.lower(), lost, not lost and (state not in _OPEN or "*" in word))


def _said(command: Sequence[str]) -> str | None:
    """What a command prints; None where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
