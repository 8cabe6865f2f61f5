"""The batch script with which SLURM starts the workers of a run, begins them again after a loss, and after the job was requeued."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shlex import join

from polyrhythm.errors import NoProgressError
from polyrhythm.launchers.submission import NEW_SECRET, SECRET, WorkerCommand

_TEMPLATE = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --ntasks={workers}
#SBATCH --requeue
#SBATCH --open-mode=append
{options}
set -u
# Only this job's workers have the secret: it is made here, and in no file.
export {secret}="{new_secret}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$(scontrol show node "$first" | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2)
export OMP_NUM_THREADS={threads}

for (( restart = 0; ; restart++ )); do
    if (( restart + ${{SLURM_RESTART_COUNT:-0}} )); then
        worker=({again})
    else
        worker=({command})
    fi
    srun --kill-on-bad-exit=1 --wait=30 "${{worker[@]}}"
    code=$?
    # 2: what was given cannot be run, now or later; {stuck}: it was started again too often without a further step
    if (( code == 0 || code == 2 || code == {stuck} || restart == {restarts} )); then
        exit $code
    fi
    echo "polyrhythm: the workers ended with code $code; they are started again ($(( restart + 1 )) of {restarts})" >&2
done
"""


def batch_script(job: WorkerCommand, options: Sequence[str], restarts: int, threads: int) -> str:
    """The script of `job`, submitted with sbatch's `options`; after a loss the workers are started again up to `restarts` times."""
    return _TEMPLATE.format(
        name=job.name,
        workers=job.workers,
        options=f"#SBATCH {join(options)}\n" if options else "",
        secret=SECRET,
        new_secret=NEW_SECRET,
        threads=threads,
        command=join([sys.executable, *job.arguments]),
        again=join([sys.executable, *job.again]),
        restarts=restarts,
        stuck=NoProgressError.EXIT_CODE,
    )
