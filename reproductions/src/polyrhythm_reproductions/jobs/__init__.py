"""Trainings that reproductions use in addition to the bundled workloads: other optimizers, and data generated from a seed."""
