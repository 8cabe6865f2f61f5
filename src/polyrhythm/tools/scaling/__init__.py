"""Scaling laws: how loss, and samples to a target, fall with the size of a model."""
