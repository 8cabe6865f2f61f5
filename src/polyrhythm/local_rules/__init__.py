"""Local rules: how a worker's own steps between two exchanges are changed, and where it continues after an exchange.

`Strategy(local=...)` holds one. `core.strategy.local_rule` calls it before each step and after each exchange.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.core.protocols.local import PlainSteps as PlainSteps
from polyrhythm.local_rules.proximal import Proximal as Proximal
from polyrhythm.local_rules.reset_moments import ResetMoments as ResetMoments
from polyrhythm.local_rules.average_moments import AverageMoments as AverageMoments
from polyrhythm.local_rules.keep_own import KeepOwn as KeepOwn
from polyrhythm.local_rules.keep_late_steps import KeepLateSteps as KeepLateSteps
from polyrhythm.local_rules.consensus import Consensus as Consensus
from polyrhythm.local_rules.corrected_weights import CorrectedWeights as CorrectedWeights
from polyrhythm.local_rules.tracked_gradients import TrackedGradients as TrackedGradients
from polyrhythm.local_rules.gossip_nesterov import GossipNesterov as GossipNesterov
from polyrhythm.local_rules.one_block import OneBlock as OneBlock
from polyrhythm.local_rules.random_component import RandomComponent as RandomComponent

MEMBERS = declared.members(globals())
"""Examples of each piece, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
