"""Codecs: how a vector is encoded for an exchange.

`Strategy(codec=...)` holds one. The clients and servers of a topology call it to encode the values that they send, and
to decode those that they receive.
"""

import torch

from polyrhythm.codec.feature_blocks import FeatureBlocks
from polyrhythm.codec.feedback.averaged_momentum import AveragedMomentum
from polyrhythm.codec.feedback.clipped_feedback import ClippedFeedback
from polyrhythm.codec.feedback.decaying_feedback import DecayingFeedback
from polyrhythm.codec.feedback.error_feedback import ErrorFeedback
from polyrhythm.codec.feedback.local_momentum import LocalMomentum
from polyrhythm.codec.feedback.momentum_correction import MomentumCorrection
from polyrhythm.codec.few_bits.cast import Cast
from polyrhythm.codec.few_bits.e3m0 import E3M0
from polyrhythm.codec.few_bits.one_bit import OneBit
from polyrhythm.codec.few_bits.one_bit_tensorwise import OneBitTensorwise
from polyrhythm.codec.few_bits.scaled_sign import ScaledSign
from polyrhythm.codec.few_bits.sign import Sign
from polyrhythm.codec.few_bits.stochastic_levels import StochasticLevels
from polyrhythm.codec.few_bits.ternary import Ternary
from polyrhythm.codec.few_bits.two_bit import TwoBit
from polyrhythm.codec.few_bits.unit_signs import UnitSigns
from polyrhythm.codec.identity import Identity
from polyrhythm.codec.low_rank.low_rank import LowRank
from polyrhythm.codec.low_rank.refreshed_low_rank import RefreshedLowRank
from polyrhythm.codec.low_rank.sufficient_factors import SufficientFactors
from polyrhythm.codec.rows import Rows
from polyrhythm.codec.sparse.adaptive_threshold import AdaptiveThreshold
from polyrhythm.codec.sparse.cosine_top_k import CosineTopK
from polyrhythm.codec.sparse.gap_coded import GapCoded
from polyrhythm.codec.sparse.key_list import KeyList
from polyrhythm.codec.sparse.max_n import MaxN
from polyrhythm.codec.sparse.random_k import RandomK
from polyrhythm.codec.sparse.relative import Relative
from polyrhythm.codec.sparse.sender_mean import SenderMean
from polyrhythm.codec.sparse.shared_k import SharedK
from polyrhythm.codec.sparse.significant import Significant
from polyrhythm.codec.sparse.threshold import Threshold
from polyrhythm.codec.sparse.top_k import TopK
from polyrhythm.codec.sparse.top_k_warmup import TopKWarmup
from polyrhythm.codec.wrappers.clipped import Clipped
from polyrhythm.codec.wrappers.kkt import KKT
from polyrhythm.codec.wrappers.per_tensor import PerTensor
from polyrhythm.codec.wrappers.random_skip import RandomSkip
from polyrhythm.codec.wrappers.ranges import Ranges
from polyrhythm.codec.wrappers.rate_scaled import RateScaled
from polyrhythm.codec.wrappers.striped import Striped
from polyrhythm.codec.wrappers.warmup import Warmup
from polyrhythm.core.protocols.codec import Codec

MEMBERS: tuple[Codec, ...] = (
    Identity(),
    Cast(torch.float16),
    Cast(torch.bfloat16),
    TopK(0.1),
    TopK(1.0),
    RandomK(0.1),
    RandomK(1.0),
    Significant(0.5),
    Significant(0),
    Relative(0.5, floor=0.1),
    Relative(0),
    Relative(0.5, decay=0.0, share=1.0),
    Threshold(0.5),
    Ranges(3),
    MaxN(50),
    ErrorFeedback(MaxN(20)),
    OneBit(),
    LowRank(1),
    ErrorFeedback(Cast(torch.bfloat16)),
    ErrorFeedback(TopK(0.1)),
    ErrorFeedback(RandomK(0.1)),
    ErrorFeedback(Significant(0.5)),
    ErrorFeedback(Relative(0.5, floor=0.1)),
    ErrorFeedback(Threshold(0.5)),
    ErrorFeedback(OneBit()),
    ErrorFeedback(LowRank(2)),
    Striped(Identity()),
    Striped(ErrorFeedback(TopK(0.1))),
    Striped(ErrorFeedback(OneBit())),
    Striped(PerTensor(ErrorFeedback(OneBit()))),
    Striped(ErrorFeedback(Relative(0.5))),
    ErrorFeedback(Striped(OneBit())),
    Warmup(2, ErrorFeedback(TopK(0.1))),
    Warmup(1, Striped(ErrorFeedback(OneBit()))),
    ErrorFeedback(Warmup(1, LowRank(1))),
    PerTensor(ErrorFeedback(OneBit())),
    PerTensor(ErrorFeedback(Threshold(0.5)), rest=Cast(torch.float16)),
    PerTensor(ErrorFeedback(Relative(0.5))),
    ErrorFeedback(PerTensor(LowRank(1), rest=TopK(0.5), smallest=8)),
    Warmup(1, PerTensor(ErrorFeedback(TopK(0.2)))),
    Rows(),
    PerTensor(Rows(), rest=Cast(torch.float16)),
    SufficientFactors(),
    TwoBit(0.5),
    UnitSigns(),
    GapCoded(Threshold(0.5)),
    AdaptiveThreshold(0.5),
    AdaptiveThreshold(3.0, fewest=0.01, most=0.2),
    OneBitTensorwise(),
    ErrorFeedback(TwoBit(0.5)),
    ErrorFeedback(UnitSigns(0.0)),
    ErrorFeedback(GapCoded(Threshold(0.5))),
    ErrorFeedback(AdaptiveThreshold(0.5)),
    ErrorFeedback(OneBitTensorwise()),
    ClippedFeedback(AdaptiveThreshold(0.5)),
    ClippedFeedback(Threshold(0.25), quanta=1.0, every=1),
    Striped(ErrorFeedback(TwoBit(0.5))),
    PerTensor(ErrorFeedback(TwoBit(0.5)), rest=ErrorFeedback(TwoBit(0.5))),
    StochasticLevels(7, bucket=16),
    StochasticLevels(1, bucket=512),
    Ternary(),
    Ternary(float("inf")),
    Sign(),
    Striped(Sign()),
    LocalMomentum(0.9, Striped(Sign())),
    Striped(ErrorFeedback(ScaledSign())),
    AveragedMomentum(0.9, 2, Striped(ErrorFeedback(ScaledSign()))),
    MomentumCorrection(TopK(0.1)),
    Clipped(1.0, PerTensor(MomentumCorrection(TopKWarmup((0.5, 0.1), 2)), rest=MomentumCorrection(TopK(0.5)))),
    ErrorFeedback(RefreshedLowRank(1, period=2)),
    DecayingFeedback(CosineTopK(2, chunk=4)),
    RateScaled(DecayingFeedback(SenderMean(CosineTopK(2, chunk=4)))),
    SenderMean(CosineTopK(3, chunk=2)),
    CosineTopK(4096),
    SharedK(0.1),
    ErrorFeedback(SharedK(0.2)),
    E3M0(),
    Striped(ErrorFeedback(E3M0())),
    KeyList(),
    KKT(KeyList(), 0.5, retest=3),
    FeatureBlocks(KKT(KeyList(), 0.5, retest=3), 3),
    FeatureBlocks(Ranges(2), 3),
    RandomSkip(KeyList(), 0.5),
    ErrorFeedback(RandomSkip(KeyList(), 0.5)),
)
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = [
    "E3M0",
    "KKT",
    "MEMBERS",
    "AdaptiveThreshold",
    "AveragedMomentum",
    "Cast",
    "Clipped",
    "ClippedFeedback",
    "CosineTopK",
    "DecayingFeedback",
    "ErrorFeedback",
    "FeatureBlocks",
    "GapCoded",
    "Identity",
    "KeyList",
    "LocalMomentum",
    "LowRank",
    "MaxN",
    "MomentumCorrection",
    "OneBit",
    "OneBitTensorwise",
    "PerTensor",
    "RandomK",
    "RandomSkip",
    "Ranges",
    "RateScaled",
    "RefreshedLowRank",
    "Relative",
    "Rows",
    "ScaledSign",
    "SenderMean",
    "SharedK",
    "Sign",
    "Significant",
    "StochasticLevels",
    "Striped",
    "SufficientFactors",
    "Ternary",
    "Threshold",
    "TopK",
    "TopKWarmup",
    "TwoBit",
    "UnitSigns",
    "Warmup",
]
