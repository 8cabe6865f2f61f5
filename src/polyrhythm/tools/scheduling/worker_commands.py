"""The command and the variables of a worker that joins the others of its job, on the host of its slot."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from polyrhythm.cluster import Cluster, WorkerSlot
from polyrhythm.launchers.submission import SECRET
from polyrhythm.tools.scheduling.job_run import CarriedJob, log_of
from polyrhythm.tools.scheduling.news import StartWorker

_PORTS = range(20000, 32000)
_LOOPBACK = "127.0.{}.{}"


def address_of(cluster: Cluster, host: str, remote: bool) -> str:
    """The address at which workers on `host` are reached: its name, or an address of its own on the loopback of this machine."""
    number = cluster.index[host] + 2
    return host if remote else _LOOPBACK.format(number // 250, number % 250)


def free_port(address: str, remote: bool) -> int:
    """A port that is free there, as far as can be known from here."""
    if remote:
        return SystemRandom().choice(_PORTS)
    with socket.socket() as found:
        found.bind((address, 0))
        return int(found.getsockname()[1])


def start_of(run: CarriedJob, name: str, rank: int, slot: WorkerSlot, where: tuple[str, str, Path]) -> StartWorker:
    """The order that starts the worker `name` of `run`; `where` are its Python, its address, and the directory of the whole run."""
    job = run.training.job
    environment = {**settings_of(run), "POLYRHYTHM_HOST_ID": slot.host, **devices_of(slot.devices)}
    if not job.is_malleable:
        environment |= {"RANK": str(rank), "LOCAL_RANK": "0"}
    return StartWorker(name, join_command(run, name, where), environment, str(log_of(where[2], name)))


def devices_of(devices: Sequence[int]) -> dict[str, str]:
    """The variables by which a process sees these devices alone, in the order of NVML, by which a GPU's health is known."""
    if not devices:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(device) for device in devices)}


def threads_of(run: CarriedJob) -> dict[str, str]:
    """The variable with the number of threads of a worker."""
    return {"OMP_NUM_THREADS": str(max(1, int(run.training.job.demand.cores)))}


def settings_of(run: CarriedJob) -> dict[str, str]:
    """The variables that all workers of the present attempt have in common."""
    job = run.training.job
    environment = {
        "MASTER_ADDR": ",".join(run.addresses) if job.is_malleable else run.addresses[0],
        "MASTER_PORT": str(run.port),
        SECRET: run.secret,
        **threads_of(run),
    }
    return environment if job.is_malleable else {**environment, "WORLD_SIZE": str(job.workers)}


def program_of(run: CarriedJob, out: str | Path, bind: Sequence[str] = ()) -> list[str]:
    """The words after `python` of any worker of a fixed number, who knows its rank; `bind` are further words of `polyrhythm join`."""
    train, kept = run.training.train, Path(out) / run.name
    if train.script is not None:
        return [train.script, *train.arguments]
    words = ["-m", "polyrhythm", "join", *train.words(run.system), *bind, "--out", str(kept / f"attempt-{run.attempt}")]
    if train.every is not None:
        resumed = ["--resume"] if run.attempt > 1 else []
        words += ["--checkpoint", str(kept / "checkpoints"), "--every", str(train.every), *resumed]
    return [*words, *train.after]


def join_command(run: CarriedJob, name: str, where: tuple[str, str, Path]) -> list[str]:
    """The command of the worker `name`, or of any of a fixed number; `where` as in `start_of`, with no address where none is bound."""
    python, address, out = where
    job, train = run.training.job, run.training.train
    bind = ["--bind", address] if address else []
    if not job.is_malleable:
        return [python, *program_of(run, out, bind)]
    command = [python, "-m", "polyrhythm", "join", *train.words(run.system), *bind]
    kept = out / run.name / f"attempt-{run.attempt}"
    return [*command, "--workers", f"{job.least}..{job.workers}", "--out", str(kept / name.rpartition("/")[2]), *train.after]
