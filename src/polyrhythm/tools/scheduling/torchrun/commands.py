"""The commands by which torchrun is started for one attempt of a job, one on each of its hosts."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.cluster import WorkerSlot
from polyrhythm.launchers.submission import SECRET
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.worker_commands import devices_of, program_of, threads_of

_AGENT = ("-m", "torch.distributed.run")
# torchrun gives each worker a session of its own: one that is killed, as with a lost connection, would leave them. So the kernel is told
# to kill a worker with its torchrun (PR_SET_PDEATHSIG is kept by exec), without an import that the worker would have to wait for.
_BOUND = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.getppid() > 1 or sys.exit(1)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def node_command(run: CarriedJob, node: int, counts: Sequence[int], where: tuple[str, str, str]) -> list[str]:
    """The command of host `node` of those with so many workers each; `where` are its Python, its address and the run's directory.

    The hosts meet at a port of the first, by ranks that are those of the placement. torchrun starts nothing anew by itself: what follows a
    failure is decided for the whole cluster.
    """
    python, address, out = where
    meeting = [f"--nnodes={len(counts)}", f"--node-rank={node}", f"--nproc-per-node={counts[node]}", "--max-restarts=0"]
    static = ["--rdzv-backend=static", f"--rdzv-endpoint={run.addresses[0]}:{run.port}", f"--rdzv-id={run.name}-{run.attempt}"]
    own = [*_AGENT, *meeting, *static, f"--local-addr={address}", "--no-python"]
    return [python, *own, python, "-c", _BOUND, *program_of(run, out)]


def node_variables(run: CarriedJob, slots: Sequence[WorkerSlot]) -> dict[str, str]:
    """The variables of the workers on one host: threads, devices, the secret of the attempt, and the host's name."""
    devices = tuple(dict.fromkeys(device for slot in slots for device in slot.devices))
    return {**threads_of(run), **devices_of(devices), SECRET: run.secret, "POLYRHYTHM_HOST_ID": slots[0].host}
