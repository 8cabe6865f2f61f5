"""Jobs on a cluster of SLURM: it is asked for the very nodes that were decided, one batch script for each job or worker of a crew."""
