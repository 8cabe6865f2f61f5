"""How is a vector encoded?"""

import torch

from polyrhythm.codec.adaptive_threshold import AdaptiveThreshold
from polyrhythm.codec.cast import Cast
from polyrhythm.codec.clipped_feedback import ClippedFeedback
from polyrhythm.codec.error_feedback import ErrorFeedback
from polyrhythm.codec.gap_coded import GapCoded
from polyrhythm.codec.identity import Identity
from polyrhythm.codec.low_rank import LowRank
from polyrhythm.codec.one_bit import OneBit
from polyrhythm.codec.one_bit_tensorwise import OneBitTensorwise
from polyrhythm.codec.per_tensor import PerTensor
from polyrhythm.codec.random_k import RandomK
from polyrhythm.codec.relative import Relative
from polyrhythm.codec.rows import Rows
from polyrhythm.codec.significant import Significant
from polyrhythm.codec.striped import Striped
from polyrhythm.codec.sufficient_factors import SufficientFactors
from polyrhythm.codec.threshold import Threshold
from polyrhythm.codec.top_k import TopK
from polyrhythm.codec.two_bit import TwoBit
from polyrhythm.codec.unit_signs import UnitSigns
from polyrhythm.codec.warmup import Warmup
from polyrhythm.pieces.codec import Codec

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
    Threshold(0.5),
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
)
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = [
    "MEMBERS",
    "AdaptiveThreshold",
    "Cast",
    "ClippedFeedback",
    "ErrorFeedback",
    "GapCoded",
    "Identity",
    "LowRank",
    "OneBit",
    "OneBitTensorwise",
    "PerTensor",
    "RandomK",
    "Relative",
    "Rows",
    "Significant",
    "Striped",
    "SufficientFactors",
    "Threshold",
    "TopK",
    "TwoBit",
    "UnitSigns",
    "Warmup",
]
