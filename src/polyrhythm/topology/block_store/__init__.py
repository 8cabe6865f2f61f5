"""Weights in blocks, each kept and updated by one of the workers (BigDL)."""
