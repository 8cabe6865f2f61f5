"""Weights in the shared memory of one host, written without locks."""
