"""Selections: the parameters that an exchange is for.

`Strategy(selected=...)` holds pairs of a selection and an exchange.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.parameters.named import Named as Named
from polyrhythm.parameters.modules import Modules as Modules
from polyrhythm.parameters.dimensions import Dimensions as Dimensions
from polyrhythm.parameters.where import Where as Where
from polyrhythm.parameters.cheaper_as_factors import CheaperAsFactors as CheaperAsFactors
from polyrhythm.parameters.fewer_as_factors import FewerAsFactors as FewerAsFactors
from polyrhythm.parameters.optionally import Optionally as Optionally
from polyrhythm.parameters.fragment import Fragment as Fragment

MEMBERS = (
    *declared.members(globals()),
    Optionally(Modules("Embedding")),
)
"""Examples of each piece, and compositions, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
