"""Measurements: of this machine, of its links, and of a run without its arithmetic."""
