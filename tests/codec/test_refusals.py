"""What cannot be composed is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from polyrhythm.codec import (
    MEMBERS,
    AdaptiveThreshold,
    Cast,
    ClippedFeedback,
    ErrorFeedback,
    GapCoded,
    Identity,
    LowRank,
    OneBit,
    PerTensor,
    RandomK,
    Relative,
    Significant,
    Striped,
    Threshold,
    TopK,
    TwoBit,
    UnitSigns,
    Warmup,
)
from polyrhythm.core.protocols.codec import Codec, packets
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

HUGE = Layout(("p",), ((2**31 + 1,),))


@pytest.mark.parametrize(
    ("compose", "remedy"),
    [
        (lambda: TopK(0), "above 0 and at most 1"),
        (lambda: TopK(1.5), "above 0 and at most 1"),
        (lambda: RandomK(-0.1), "above 0 and at most 1"),
        (lambda: RandomK(float("nan")), "above 0 and at most 1"),
        (lambda: Significant(-1), "at least 0"),
        (lambda: Significant(float("inf")), "at least 0"),
        (lambda: Relative(-1), "at least 0"),
        (lambda: Relative(0.1, floor=0), "above 0"),
        (lambda: Relative(float("nan")), "at least 0"),
        (lambda: Relative(0.1, decay=-1), "at least 0"),
        (lambda: Relative(0.1, share=float("nan")), "at least 0"),
        (lambda: Threshold(0), "Significant"),
        (lambda: Threshold(-0.5), "must be positive"),
        (lambda: Threshold(float("nan")), "must be positive"),
        (lambda: TwoBit(0), "a number above 0"),
        (lambda: UnitSigns(float("nan")), "such as 0"),
        (lambda: GapCoded(OneBit()), "give it Threshold"),  # type: ignore[arg-type]
        (lambda: AdaptiveThreshold(0), "must be positive"),
        (lambda: AdaptiveThreshold(fewest=0.1), "fewest below most"),
        (lambda: ClippedFeedback(Threshold(1), quanta=0), "above 0"),
        (lambda: ClippedFeedback(Threshold(1), every=0), "use ErrorFeedback"),
        (lambda: Cast(torch.float32), "torch.bfloat16"),
        (lambda: Cast("float16"), "torch.float16"),  # type: ignore[arg-type]
        (lambda: LowRank(0), "at least 1"),
        (lambda: Warmup(0, TopK(0.1)), "at least 1"),
        (lambda: PerTensor(OneBit(), smallest=0), "at least 1"),
        (lambda: ErrorFeedback(Identity()), "Use it bare"),
        (lambda: ErrorFeedback(ErrorFeedback(OneBit())), "Use it bare"),
        (lambda: ErrorFeedback(Warmup(3, ErrorFeedback(OneBit()))), "Use it bare"),
        (lambda: Striped(LowRank(2)), "Use it bare"),
        (lambda: Striped(Striped(OneBit())), "Use it bare"),
        (lambda: Striped(PerTensor(LowRank(2))), "Use it bare"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_composed(compose: Callable[[], Any], remedy: str) -> None:
    with pytest.raises(CompositionError, match=remedy) as refusal:
        compose()
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize("codec", [TopK(0.1), RandomK(0.1), Significant(0), Threshold(1.0), ErrorFeedback(Threshold(1.0))], ids=str)
def test_more_elements_than_an_index_can_name_are_refused_before_anything_is_allocated(codec: Codec) -> None:
    with pytest.raises(CompositionError, match="31 bits"):
        codec.initial(HUGE)


@pytest.mark.parametrize("codec", MEMBERS, ids=str)
def test_a_codec_is_narrowed_to_one_of_packets_exactly_where_its_traits_state_that_it_makes_them(codec: Codec) -> None:
    if codec.traits.makes_packets:
        assert packets(codec).width > 0
    else:
        with pytest.raises(AssertionError, match="where packets are needed"):
            packets(codec)
