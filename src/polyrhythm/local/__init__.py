"""How do workers step between exchanges?"""

from polyrhythm.local.average_moments import AverageMoments
from polyrhythm.local.consensus import Consensus
from polyrhythm.local.corrected_weights import CorrectedWeights
from polyrhythm.local.gossip_nesterov import GossipNesterov
from polyrhythm.local.keep_late_steps import KeepLateSteps
from polyrhythm.local.keep_own import KeepOwn
from polyrhythm.local.one_block import OneBlock
from polyrhythm.local.proximal import Proximal
from polyrhythm.local.random_component import RandomComponent
from polyrhythm.local.reset_moments import ResetMoments
from polyrhythm.local.tracked_gradients import TrackedGradients
from polyrhythm.pieces.local import PlainSteps

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
