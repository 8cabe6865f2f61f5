"""Cuts by names: dimensions of weights have names, and rules say over which axis each name is divided (Shazeer et al., 2018)."""

from polyrhythm.partition.rules.legality import refuse_illegal
from polyrhythm.partition.rules.names import NamedDimension, dimensions, dimensions_of
from polyrhythm.partition.rules.search import legal_rules, memory_minimal
from polyrhythm.partition.rules.styles import styles_by

__all__ = ["NamedDimension", "dimensions", "dimensions_of", "legal_rules", "memory_minimal", "refuse_illegal", "styles_by"]
