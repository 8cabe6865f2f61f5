"""Sums over a group that are made without messages."""
