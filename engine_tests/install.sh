#!/usr/bin/env bash
# Debian's packages that engine_tests/ needs: SLURM, MPI and a Java runtime. Run as root; does nothing where they are.
set -euo pipefail
missing=()
for pair in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge mpirun.openmpi:openmpi-bin mpiexec.hydra:mpich java:openjdk-17-jre-headless; do
    PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" > /dev/null || missing+=("${pair#*:}")
done
if (( ${#missing[@]} )); then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" > /dev/null
fi
