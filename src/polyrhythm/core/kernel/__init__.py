"""Actors, ports and effects: the interface between a strategy and the runtime that runs it."""
