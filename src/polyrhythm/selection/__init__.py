"""For which parameters is an exchange?"""

from polyrhythm.selection.cheaper_as_factors import CheaperAsFactors
from polyrhythm.selection.dimensions import Dimensions
from polyrhythm.selection.fewer_as_factors import FewerAsFactors
from polyrhythm.selection.fragment import Fragment
from polyrhythm.selection.modules import Modules
from polyrhythm.selection.named import Named
from polyrhythm.selection.optionally import Optionally
from polyrhythm.selection.where import Where

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
