"""The environment variables in which launchers describe each process and its run: one entry for each launcher."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from polyrhythm.core.processes.rendezvous.found import Found
from polyrhythm.core.processes.rendezvous.hosts import Names
from polyrhythm.core.processes.rendezvous.places import DEFAULT_PORT, KeptStore, MeetingPlace, RankZero
from polyrhythm.errors import CompositionError

Variables = Mapping[str, str]

_PORTS = 10_000
_STARTING_SECONDS = 300.0
_AGENT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LauncherVariables:
    """A launcher that says in the variable `rank` which process this is, and in the first of `workers` that is set how many there are.

    `place` is where they meet, by all variables. `traces` are variables that show it at work where it gives no rank or no number.
    """

    name: str
    rank: str
    workers: tuple[str, ...]
    place: Callable[[Variables], MeetingPlace]
    traces: tuple[str, ...] = ()

    def describes(self, given: Variables) -> bool:
        """True if all that is needed is set."""
        return self.rank in given and any(name in given for name in self.workers)

    def shows(self, given: Variables) -> list[str]:
        """The variables by which it is seen at work."""
        return [name for name in (self.rank, *self.workers, *self.traces) if name in given]

    def ranked(self, given: Variables) -> tuple[int, int]:
        """The rank, and the number of workers."""
        return number(given, self.rank), number(given, next(name for name in self.workers if name in given))


def number(given: Variables, name: str, otherwise: int | None = None) -> int:
    """The variable `name` as an integer. Raises CompositionError where it is none."""
    text = given.get(name, "" if otherwise is None else str(otherwise))
    try:
        return int(text)
    except ValueError:
        raise CompositionError(f"{name}={text!r} in the environment is not an integer: set it to one.") from None


def _by_variables(given: Variables) -> MeetingPlace:
    """The meeting place by the variables that torchrun sets, or that a person would set."""
    host, port = given.get("MASTER_ADDR", "127.0.0.1"), number(given, "MASTER_PORT", DEFAULT_PORT)
    if "POLYRHYTHM_STORE" in given:
        return _kept(given["POLYRHYTHM_STORE"])
    if given.get("TORCHELASTIC_USE_AGENT_STORE", "") != "True":
        return RankZero(host, port, Names(_STARTING_SECONDS) if "KUBERNETES_SERVICE_HOST" in given else Names())
    attempt = "-".join(given.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"))
    return Found(AgentStore(host, port), f"polyrhythm/rendezvous/{attempt}", host)


def _kept(text: str) -> MeetingPlace:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise CompositionError(f"POLYRHYTHM_STORE={text!r} is no host:port: set it to where the launcher keeps its store.")
    return KeptStore(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class AgentStore:
    """Opens the store that torchrun's agent keeps."""

    host: str
    port: int

    def __call__(self) -> Store:
        """A new connection, which ends with the object."""
        return TCPStore(self.host, self.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=_AGENT_SECONDS))


def _mpi(job: str, here: tuple[str, str]) -> Callable[[Variables], MeetingPlace]:
    """On one host at loopback, by a port for each job where `job` tells them apart; `here` are the numbers of processes here and in all."""

    def place(given: Variables) -> MeetingPlace:
        port = number(given, "MASTER_PORT", DEFAULT_PORT + (zlib.crc32(given[job].encode()) % _PORTS if job in given else 0))
        if "MASTER_ADDR" in given:
            return RankZero(given["MASTER_ADDR"], port)
        if all(name in given for name in here) and given[here[0]] == given[here[1]]:
            return RankZero(port=port)
        if "SLURM_STEP_NODELIST" in given and here[0] not in given:  # srun speaks PMI too, without a launcher of MPI's
            return _slurm(given)
        raise CompositionError(
            f"MPI started {given.get(here[1], 'several')} processes, of which {given.get(here[0], 'an unknown number')} are on this host, "
            "and MASTER_ADDR is not set: start them with the address of rank 0's host, as in mpirun -x MASTER_ADDR=10.0.0.1 (Open MPI) or "
            "mpiexec -genv MASTER_ADDR 10.0.0.1 (MPICH, Intel MPI)."
        )

    return place


def _slurm(given: Variables) -> MeetingPlace:
    # one port for each job, so that two jobs on one node have two stores
    port = number(given, "MASTER_PORT", DEFAULT_PORT + number(given, "SLURM_JOB_ID", 0) % _PORTS)
    if "MASTER_ADDR" in given:
        return RankZero(given["MASTER_ADDR"], port)
    if given.get("SLURM_STEP_NUM_NODES") == "1":
        return RankZero(port=port)
    return RankZero(
        _first_node(given.get("SLURM_STEP_NODELIST") or given.get("SLURM_NODELIST", "127.0.0.1")), port, Names(otherwise=node_address)
    )


def _first_node(nodes: str) -> str:
    """The first of a SLURM list such as "gpu[03-07,12],login1"."""
    prefix, bracket, rest = nodes.partition("[")
    if not bracket or "," in prefix:
        return nodes.split(",")[0]
    return prefix + rest.split("]")[0].split(",")[0].split("-")[0]


def node_address(node: str) -> str:
    """The address that SLURM itself uses for `node`; empty where it does not tell."""
    if shutil.which("scontrol") is None:
        return ""
    shown = subprocess.run(["scontrol", "show", "node", node], capture_output=True, text=True, check=False, timeout=30).stdout
    found = next((word for word in shown.split() if word.startswith("NodeAddr=")), "").partition("=")[2]
    return "" if found == node else found


def _kubernetes(given: Variables) -> MeetingPlace:
    if "POLYRHYTHM_STORE" in given or "MASTER_ADDR" in given or given.get("WORLD_SIZE") == "1":
        return _by_variables(given)
    raise CompositionError(
        f"JOB_COMPLETION_INDEX={given['JOB_COMPLETION_INDEX']} of WORLD_SIZE={given['WORLD_SIZE']} is set, and MASTER_ADDR is not: set it "
        "in the Job to the name of its first pod, such as train-0.train with a headless Service train."
    )


LAUNCHERS = (
    LauncherVariables("torchrun, or whatever sets RANK", "RANK", ("WORLD_SIZE",), _by_variables, ("LOCAL_RANK", "TORCHELASTIC_RUN_ID")),
    LauncherVariables(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        _mpi("PMIX_NAMESPACE", ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE")),
    ),
    LauncherVariables("MPICH or Intel MPI", "PMI_RANK", ("PMI_SIZE",), _mpi("PMI_JOBID", ("MPI_LOCALNRANKS", "PMI_SIZE"))),
    LauncherVariables("SLURM", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), _slurm),
    LauncherVariables("PMIx", "PMIX_RANK", ("PMIX_SIZE", "WORLD_SIZE"), _mpi("PMIX_NAMESPACE", ("PMIX_LOCAL_SIZE", "PMIX_SIZE"))),
    LauncherVariables("Kubernetes", "JOB_COMPLETION_INDEX", ("WORLD_SIZE",), _kubernetes),
    LauncherVariables("Ray", "RANK", ("WORLD_SIZE",), _by_variables, ("RAY_RAYLET_PID",)),
    LauncherVariables("Spark", "RANK", ("WORLD_SIZE",), _by_variables, ("SPARK_BUFFER_SIZE", "SPARK_REUSE_WORKER")),
)
"""The first that describes a process does: who starts processes inside another's job overrides that one's variables."""
