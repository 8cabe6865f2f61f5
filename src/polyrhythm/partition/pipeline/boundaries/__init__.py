"""Boundaries for slow lines: fewer bytes cross a cut, and a pipeline computes something else than one process."""
