"""Selections: the parameters that an exchange is for.

`Strategy(selected=...)` holds pairs of a selection and an exchange.
"""

from polyrhythm.parameters.cheaper_as_factors import CheaperAsFactors
from polyrhythm.parameters.dimensions import Dimensions
from polyrhythm.parameters.fewer_as_factors import FewerAsFactors
from polyrhythm.parameters.fragment import Fragment
from polyrhythm.parameters.modules import Modules
from polyrhythm.parameters.named import Named
from polyrhythm.parameters.optionally import Optionally
from polyrhythm.parameters.where import Where

MEMBERS = (
    Named("*.weight"),
    Modules("Linear"),
    Dimensions(2),
    Where(lambda candidate: candidate.parameter.numel() > 8),
    CheaperAsFactors(2),
    FewerAsFactors(2),
    Optionally(Modules("Embedding")),
    Fragment(1, 2),
)
"""One of each kind: the laws are tested over this list."""

__all__ = ["MEMBERS", "CheaperAsFactors", "Dimensions", "FewerAsFactors", "Fragment", "Modules", "Named", "Optionally", "Where"]
