"""The batch scripts of placed workers, each for the very nodes of its placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from shlex import join, quote

from polyrhythm.cluster import WorkerDemand, WorkerSlot

_HEAD = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --no-requeue
"""
_GANG = """\
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$(scontrol show node "$first" | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2)
"""
_STEP = """\
srun {group}{layout} --kill-on-bad-exit=1 --wait=30 bash -c '
    export RANK=$(({first} + SLURM_PROCID)) LOCAL_RANK=$SLURM_LOCALID POLYRHYTHM_HOST_ID=$SLURMD_NODENAME
    exec "$@"' worker {command} &
"""
_WAIT = """\
# where one part fails, the others have nobody to go on with
for (( part = 0; part < {parts}; part++ )); do
    wait -n
    code=$?
    if (( code )); then
        kill $(jobs -p) 2> /dev/null
        wait
        exit $code
    fi
done
"""
# a worker of a crew is no task of a step of SLURM's, whose variables would say that there is one worker
_MEMBER = """\
unset ${{!SLURM*}} ${{!PMI*}}
export POLYRHYTHM_HOST_ID={host}
exec {command}
"""


@dataclass(frozen=True, slots=True)
class PlacedScript:
    """A script for workers in `slots`, with sbatch's own `options` for each part; what they print goes to `log`."""

    name: str
    slots: Sequence[WorkerSlot]
    demand: WorkerDemand
    log: Path
    options: Sequence[str] = ()

    def of_gang(self, command: Sequence[str]) -> str:
        """All workers as one job. Hosts with different numbers of workers are parts of a heterogeneous job, which comes as a whole."""
        parts = self._parts()
        steps, first = "", 0
        for number, (hosts, each) in enumerate(parts):
            group = f"--het-group={number} " if len(parts) > 1 else ""
            steps += _STEP.format(group=group, layout=join(self._layout(hosts, each)), first=first, command=join(command))
            first += len(hosts) * each
        asked = "#SBATCH hetjob\n".join(self._asked(hosts, each) for hosts, each in parts)
        return self._head + asked + _GANG + steps + _WAIT.format(parts=len(parts))

    def of_member(self, command: Sequence[str]) -> str:
        """One worker of a crew, in the only slot: others come and go beside it."""
        (slot,) = self.slots
        return self._head + self._asked((slot.host,), 1) + _MEMBER.format(host=quote(slot.host), command=join(command))

    @property
    def _head(self) -> str:
        return _HEAD.format(name=quote(self.name), log=quote(str(self.log)))

    def _parts(self) -> list[tuple[tuple[str, ...], int]]:
        """The hosts that have the same number of workers, and that number."""
        counts = Counter(slot.host for slot in self.slots)
        return [(tuple(host for host, each in counts.items() if each == count), count) for count in sorted(set(counts.values()))]

    def _layout(self, hosts: Sequence[str], each: int) -> list[str]:
        """Words for sbatch and srun: since 22.05 srun takes no cores from sbatch, and its variables are those of the first part."""
        words = [f"--nodes={len(hosts)}", f"--ntasks={len(hosts) * each}", f"--ntasks-per-node={each}"]
        words.append(f"--cpus-per-task={max(1, ceil(self.demand.cores))}")
        return [*words, *([f"--gpus-per-task={self.demand.devices}"] if self.demand.devices else [])]

    def _asked(self, hosts: Sequence[str], each: int) -> str:
        words = [*self._layout(hosts, each), f"--nodelist={','.join(hosts)}"]
        if self.demand.memory:
            words.append(f"--mem={ceil(self.demand.memory * each / 2**20)}M")
        return "".join(f"#SBATCH {quote(word)}\n" for word in [*words, *self.options])
