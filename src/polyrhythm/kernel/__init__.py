"""Actors, ports and effects: all that a strategy may do to the world, whichever world it is."""
