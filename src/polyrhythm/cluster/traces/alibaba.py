"""Alibaba cluster-trace-gpu-v2023 (Weng et al., 2023): pods with cores, memory, parts of a device and wanted models; a list of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from polyrhythm.cluster.hosts import ClusterDevice, ClusterHost
from polyrhythm.cluster.jobs import WHOLE, ClusterJob, WorkerDemand
from polyrhythm.cluster.simulation.traced_job import TracedJob
from polyrhythm.cluster.traces.rows import number, rows
from polyrhythm.core import streams

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time")
_HOST_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MIB = 1 << 20
_MODELS = ("T4", "P100", "V100M16", "V100M32", "G2")


def read(path: Path) -> tuple[TracedJob, ...]:
    """The pods as jobs of one worker, in the order of their creation; each takes as long as it was there, at least a second."""
    found = []
    for row in rows(path, COLUMNS):
        begin = number(row, "creation_time", path)
        seconds = max(
            1.0, number(row, "deletion_time", path) - (number(row, "scheduled_time", path) if row.get("scheduled_time") else begin)
        )
        devices, milli = int(number(row, "num_gpu", path)), int(number(row, "gpu_milli", path))
        demand = WorkerDemand(
            devices,
            milli if devices == 1 and 0 < milli < WHOLE else WHOLE,
            models=tuple(model for model in row["gpu_spec"].split("|") if model) if devices else (),
            cores=number(row, "cpu_milli", path) / WHOLE,
            memory=int(number(row, "memory_mib", path)) * _MIB,
        )
        found.append(TracedJob(begin, ClusterJob(row["name"], demand, estimate=seconds), seconds))
    return tuple(sorted(found, key=lambda traced: (traced.submitted, traced.job.name)))


def read_alibaba_hosts(path: Path) -> tuple[ClusterHost, ...]:
    """The hosts of the trace's list of nodes."""
    return tuple(
        ClusterHost(
            row["sn"],
            number(row, "cpu_milli", path) / WHOLE,
            int(number(row, "memory_mib", path)) * _MIB,
            (ClusterDevice(row["model"]),) * int(number(row, "gpu", path)),
        )
        for row in rows(path, _HOST_COLUMNS)
    )


def sample(seed: int, jobs: int) -> Mapping[str, str]:
    """Two files of the same form: pods, of which some take a part of a device, and a list of hosts."""
    draws = streams.stream(seed, "cluster", "alibaba")
    lines = [",".join((*COLUMNS[:6], "qos", "pod_phase", *COLUMNS[6:], "scheduled_time"))]
    now = 0
    for place in range(jobs):
        now += round(float(draws.exponential(100.0)))
        kind = float(draws.random())
        devices = 0 if kind < 0.13 else 1 if kind < 0.94 else int(draws.choice((2, 4, 8)))
        milli = 0 if not devices else int(draws.choice((110, 220, 320, 460, 650, 810))) if devices == 1 and draws.random() < 0.5 else 1000
        spec = str(draws.choice(_MODELS)) if devices and draws.random() < 0.1 else ""
        cores = int(draws.choice((3152, 4000, 6000, 8000, 12000, 16000))) * max(1, devices // 2)
        end = now + max(10, round(float(draws.lognormal(7.0, 1.5))))
        lines.append(f"pod-{place:04d},{cores},{cores * 2},{devices},{milli},{spec},LS,Running,{now},{end},{now}")
    hosts = ["sn,cpu_milli,memory_mib,gpu,model"]
    for place in range(max(4, jobs // 12)):
        model = _MODELS[place % len(_MODELS)]
        hosts.append(f"node-{place:04d},96000,393216,{2 if model == 'P100' else 4 if model == 'T4' else 8},{model}")
    return {"alibaba.csv": "\n".join(lines) + "\n", "alibaba-hosts.csv": "\n".join(hosts) + "\n"}
