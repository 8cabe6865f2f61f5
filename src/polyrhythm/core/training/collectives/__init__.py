"""Collective calls of the user's own code: means, sums, gathers and decisions of all workers."""
