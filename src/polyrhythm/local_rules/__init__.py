"""Local rules: how a worker's own steps between two exchanges are changed, and where it continues after an exchange.

`Strategy(local=...)` holds one. `core.strategy.local_rule` calls it before each step and after each exchange.
"""

from polyrhythm.core.protocols.local import PlainSteps
from polyrhythm.local_rules.average_moments import AverageMoments
from polyrhythm.local_rules.consensus import Consensus
from polyrhythm.local_rules.corrected_weights import CorrectedWeights
from polyrhythm.local_rules.gossip_nesterov import GossipNesterov
from polyrhythm.local_rules.keep_late_steps import KeepLateSteps
from polyrhythm.local_rules.keep_own import KeepOwn
from polyrhythm.local_rules.one_block import OneBlock
from polyrhythm.local_rules.proximal import Proximal
from polyrhythm.local_rules.random_component import RandomComponent
from polyrhythm.local_rules.reset_moments import ResetMoments
from polyrhythm.local_rules.tracked_gradients import TrackedGradients

MEMBERS = (
    *(PlainSteps(), Proximal(0.1), ResetMoments(), AverageMoments(), KeepOwn(0.5), KeepLateSteps(), Consensus(0.1)),
    *(CorrectedWeights(), TrackedGradients(), GossipNesterov(), OneBlock(3), RandomComponent()),
)
"""One of each kind: the laws are tested over this list."""

__all__ = [
    "MEMBERS",
    "AverageMoments",
    "Consensus",
    "CorrectedWeights",
    "GossipNesterov",
    "KeepLateSteps",
    "KeepOwn",
    "OneBlock",
    "PlainSteps",
    "Proximal",
    "RandomComponent",
    "ResetMoments",
    "TrackedGradients",
]
