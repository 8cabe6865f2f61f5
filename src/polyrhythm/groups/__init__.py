"""Groups of workers, for exchanges in levels (`Hierarchical`): by where they run, by number, or by hand."""

from polyrhythm.core.protocols import declared
from polyrhythm.groups.by_location import BySite as BySite
from polyrhythm.groups.by_location import ByHost as ByHost
from polyrhythm.groups.by_rank import OfSize as OfSize
from polyrhythm.groups.by_rank import InGroups as InGroups
from polyrhythm.groups.by_rank import Given as Given
from polyrhythm.core.protocols.groups import Groups as Groups

MEMBERS = declared.members(globals())
"""Examples of each piece, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
