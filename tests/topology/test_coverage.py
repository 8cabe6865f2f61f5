"""Steps that come in any order are counted up to the first that is missing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from polyrhythm.topology.overlay.coverage import Coverage, Span, from_numbers, joined, to_numbers


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_all_is_covered_in_the_end_and_nothing_before_its_turn(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ends = [0.0, *sorted(draw.choice(np.arange(1, 30), size=8, replace=False).astype(float).tolist()), math.inf]
    spans = [Span(source, after, until) for source in (0, 1) for after, until in itertools.pairwise(ends)]
    coverage, come = Coverage([0, 1]), set[Span]()
    for place in draw.permutation(len(spans)):
        coverage.add([spans[place]])
        come.add(spans[place])
        for source in (0, 1):
            missing = [span.after for span in spans if span.source == source and span not in come]
            assert coverage.until[source] == min(missing, default=math.inf)
    assert coverage.slowest == math.inf
    assert not coverage.ahead


def test_a_span_of_no_steps_carries_a_value_and_covers_nothing() -> None:
    coverage = Coverage([3])
    coverage.add([Span(3, 4.0, 4.0), Span(3, 0.0, 2.0)])
    assert coverage.slowest == 2.0
    coverage.add([Span(3, 2.0, 4.0)])
    assert coverage.slowest == 4.0
    assert not coverage.ahead


def test_spans_that_follow_each_other_are_one_on_the_wire() -> None:
    spans = [Span(1, 2.0, 3.0), Span(0, 0.0, 5.0), Span(1, 0.0, 2.0), Span(1, 5.0, math.inf)]
    assert joined(spans) == [Span(0, 0.0, 5.0), Span(1, 0.0, 3.0), Span(1, 5.0, math.inf)]
    assert from_numbers(to_numbers(spans)) == spans


def test_a_coverage_goes_on_from_a_checkpoint() -> None:
    coverage, other = Coverage([0, 1]), Coverage([0, 1])
    coverage.add([Span(0, 0.0, 3.0), Span(1, 2.0, 4.0)])
    other.restore(coverage.export(), 0.0)
    for each in (coverage, other):
        each.add([Span(1, 0.0, 2.0)])
        assert each.until == {0: 3.0, 1: 4.0}
