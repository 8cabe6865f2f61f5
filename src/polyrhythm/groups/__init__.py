"""Groups of workers, for exchanges in levels (`Hierarchical`): by where they run, by number, or by hand."""

from polyrhythm.core.protocols.groups import Groups
from polyrhythm.groups.by_location import ByHost, BySite
from polyrhythm.groups.by_rank import Given, InGroups, OfSize

MEMBERS: tuple[Groups, ...] = (BySite(), ByHost(), OfSize(2), InGroups(2), Given(((0, 2), (1, 3))))
"""One of each kind: the laws are tested over this list, with four workers."""

__all__ = ["MEMBERS", "ByHost", "BySite", "Given", "Groups", "InGroups", "OfSize"]
