"""Trainings that reproductions use beside the bundled workloads: other optimizers, and data generated from a seed."""
