"""Parts of the benchmarks that kill workers: the job, the record of its steps, the faults, and what is measured."""
