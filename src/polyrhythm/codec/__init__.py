"""Codecs: how a vector is encoded for an exchange.

`Strategy(codec=...)` holds one. The clients and servers of a topology call it to encode the values that they send, and
to decode those that they receive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from polyrhythm.core.protocols import declared
from polyrhythm.codec.identity import Identity as Identity
from polyrhythm.codec.few_bits.cast import Cast as Cast
from polyrhythm.codec.sparse.top_k import TopK as TopK
from polyrhythm.codec.sparse.random_k import RandomK as RandomK
from polyrhythm.codec.sparse.significant import Significant as Significant
from polyrhythm.codec.sparse.relative import Relative as Relative
from polyrhythm.codec.sparse.threshold import Threshold as Threshold
from polyrhythm.codec.wrappers.ranges import Ranges as Ranges
from polyrhythm.codec.sparse.max_n import MaxN as MaxN
from polyrhythm.codec.feedback.error_feedback import ErrorFeedback as ErrorFeedback
from polyrhythm.codec.few_bits.one_bit import OneBit as OneBit
from polyrhythm.codec.low_rank.low_rank import LowRank as LowRank
from polyrhythm.codec.wrappers.striped import Striped as Striped
from polyrhythm.codec.wrappers.warmup import Warmup as Warmup
from polyrhythm.codec.wrappers.per_tensor import PerTensor as PerTensor
from polyrhythm.codec.rows import TouchedRows as TouchedRows
from polyrhythm.codec.low_rank.sufficient_factors import SufficientFactors as SufficientFactors
from polyrhythm.codec.few_bits.two_bit import TwoBit as TwoBit
from polyrhythm.codec.few_bits.unit_signs import UnitSigns as UnitSigns
from polyrhythm.codec.sparse.gap_coded import GapCoded as GapCoded
from polyrhythm.codec.sparse.adaptive_threshold import AdaptiveThreshold as AdaptiveThreshold
from polyrhythm.codec.few_bits.one_bit_tensorwise import OneBitTensorwise as OneBitTensorwise
from polyrhythm.codec.feedback.clipped_feedback import ClippedFeedback as ClippedFeedback
from polyrhythm.codec.few_bits.stochastic_levels import StochasticLevels as StochasticLevels
from polyrhythm.codec.few_bits.ternary import Ternary as Ternary
from polyrhythm.codec.few_bits.sign import Sign as Sign
from polyrhythm.codec.feedback.local_momentum import LocalMomentum as LocalMomentum
from polyrhythm.codec.feedback.averaged_momentum import AveragedMomentum as AveragedMomentum
from polyrhythm.codec.feedback.momentum_correction import MomentumCorrection as MomentumCorrection
from polyrhythm.codec.wrappers.clipped import Clipped as Clipped
from polyrhythm.codec.feedback.decaying_feedback import DecayingFeedback as DecayingFeedback
from polyrhythm.codec.wrappers.rate_scaled import RateScaled as RateScaled
from polyrhythm.codec.sparse.sender_mean import SenderMean as SenderMean
from polyrhythm.codec.sparse.cosine_top_k import CosineTopK as CosineTopK
from polyrhythm.codec.sparse.shared_k import SharedK as SharedK
from polyrhythm.codec.few_bits.e3m0 import E3M0 as E3M0
from polyrhythm.codec.sparse.key_list import KeyList as KeyList
from polyrhythm.codec.wrappers.kkt import KKT as KKT
from polyrhythm.codec.feature_blocks import FeatureBlocks as FeatureBlocks
from polyrhythm.codec.wrappers.random_skip import RandomSkip as RandomSkip
from polyrhythm.codec.few_bits.scaled_sign import ScaledSign as ScaledSign
from polyrhythm.codec.low_rank.refreshed_low_rank import RefreshedLowRank as RefreshedLowRank
from polyrhythm.codec.low_rank.quantized_low_rank import QuantizedLowRank as QuantizedLowRank
from polyrhythm.codec.sparse.top_k_warmup import TopKWarmup as TopKWarmup

if TYPE_CHECKING:
    from polyrhythm.core.protocols.codec import Codec

MEMBERS: tuple[Codec, ...] = (
    *declared.members(globals()),
    ErrorFeedback(MaxN(20)),
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
    PerTensor(TouchedRows(), rest=Cast(torch.float16)),
    GapCoded(Threshold(0.5)),
    ErrorFeedback(TwoBit(0.5)),
    ErrorFeedback(UnitSigns(0.0)),
    ErrorFeedback(GapCoded(Threshold(0.5))),
    ErrorFeedback(AdaptiveThreshold(0.5)),
    ErrorFeedback(OneBitTensorwise()),
    ClippedFeedback(AdaptiveThreshold(0.5)),
    ClippedFeedback(Threshold(0.25), quanta=1.0, every=1),
    Striped(ErrorFeedback(TwoBit(0.5))),
    PerTensor(ErrorFeedback(TwoBit(0.5)), rest=ErrorFeedback(TwoBit(0.5))),
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
    ErrorFeedback(SharedK(0.2)),
    Striped(ErrorFeedback(E3M0())),
    KKT(KeyList(), 0.5, retest=3),
    FeatureBlocks(KKT(KeyList(), 0.5, retest=3), 3),
    FeatureBlocks(Ranges(2), 3),
    RandomSkip(KeyList(), 0.5),
    ErrorFeedback(RandomSkip(KeyList(), 0.5)),
)
"""Examples of each piece, and compositions, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
