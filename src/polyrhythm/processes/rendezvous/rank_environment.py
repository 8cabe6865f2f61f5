"""The environment of a process started by another launcher: its rank, and the address of the store of its run."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from polyrhythm.errors import CompositionError

_DEFAULT_PORT = 29400


@dataclass(frozen=True, slots=True)
class RankEnvironment:
    """Rank of `workers`; `local_rank` among those on this host; where rank 0, or torchrun's agent, keeps the store.

    `agent` is whether torchrun keeps the store; `attempt` distinguishes restarts that share it.
    """

    rank: int
    workers: int
    local_rank: int = 0
    host: str = "127.0.0.1"
    port: int = _DEFAULT_PORT
    agent: bool = False
    attempt: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.workers:
            raise CompositionError(f"Rank {self.rank} is not one of {self.workers} workers: ranks go from 0 to {self.workers - 1}.")


def find_rank_environment(environment: Mapping[str, str] | None = None) -> RankEnvironment:
    """The environment that torchrun's variables (RANK, WORLD_SIZE, ...) or SLURM's describe; the only one of one worker without any."""
    given = os.environ if environment is None else environment
    if "RANK" in given and "WORLD_SIZE" in given:
        return RankEnvironment(
            _number(given, "RANK"),
            _number(given, "WORLD_SIZE"),
            _number(given, "LOCAL_RANK", 0),
            given.get("MASTER_ADDR", "127.0.0.1"),
            _number(given, "MASTER_PORT", _DEFAULT_PORT),
            given.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True",
            "-".join(given.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")),
        )
    if "SLURM_PROCID" in given and "SLURM_NTASKS" in given:
        # one port for each job, so that two jobs on one node have two stores
        port = _DEFAULT_PORT + _number(given, "SLURM_JOB_ID", 0) % 10_000
        return RankEnvironment(
            _number(given, "SLURM_PROCID"),
            _number(given, "SLURM_NTASKS"),
            _number(given, "SLURM_LOCALID", 0),
            given.get("MASTER_ADDR") or _first_host(given.get("SLURM_STEP_NODELIST") or given.get("SLURM_NODELIST", "127.0.0.1")),
            _number(given, "MASTER_PORT", port),
            attempt=f"{given.get('SLURM_JOB_ID', '')}-{given.get('SLURM_STEP_ID', '')}",
        )
    return RankEnvironment(0, 1, port=0)  # any: nobody else looks for it


def own_ip(environment: RankEnvironment) -> str:
    """The address of this host's interface towards the store, unless POLYRHYTHM_HOST_ADDR names another.

    That is needed where a host's own name leads to its loopback interface, and on hosts behind address translation.
    """
    named = os.environ.get("POLYRHYTHM_HOST_ADDR")
    if named:
        return named
    for family, kind, _, _, target in socket.getaddrinfo(environment.host, environment.port, type=socket.SOCK_DGRAM):
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(target)  # sends nothing: only looks up the route
            except OSError:
                continue
            return str(probe.getsockname()[0])
    raise CompositionError(f"{environment.host!r} cannot be reached from here: set MASTER_ADDR to an address that all hosts can reach.")


def _number(given: Mapping[str, str], name: str, otherwise: int | None = None) -> int:
    text = given.get(name, "" if otherwise is None else str(otherwise))
    try:
        return int(text)
    except ValueError:
        raise CompositionError(f"{name}={text!r} in the environment is not an integer: set it to one.") from None


def _first_host(nodes: str) -> str:
    """The first of a SLURM list such as "gpu[03-07,12],login1"."""
    prefix, bracket, rest = nodes.partition("[")
    if not bracket or "," in prefix:
        return nodes.split(",")[0]
    return prefix + rest.split("]")[0].split(",")[0].split("-")[0]
