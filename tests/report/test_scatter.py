"""Names next to the points of a front."""

from __future__ import annotations

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.tools.report.scatter import _MARGIN, _WIDTH, BYTES, SECONDS, ScatterPoint, _apart, _box, _meet, _placed, scatter
from polyrhythm.tools.report.scatter import HEIGHT as WHOLE

POINTS = st.lists(st.tuples(st.floats(0.1, 100), st.floats(1, 1e9)), min_size=1, max_size=12, unique=True)


@given(places=POINTS)
@settings(max_examples=60, deadline=None)
def test_no_name_covers_another_and_one_alone_has_its_name(places: list[tuple[float, float]]) -> None:
    points = [ScatterPoint(f"streaming-diloco × {place}", x, y, True) for place, (x, y) in enumerate(places)]
    across = _placed([each.x for each in points], SECONDS, _WIDTH)
    up = _placed([each.y for each in points], BYTES, WHOLE - _MARGIN)
    named = _apart(points, points, SECONDS, BYTES)
    boxes = [_box(each.name, across(each.x), WHOLE - _MARGIN - up(each.y) + dy, align) for each, align, dy in named]
    assert not any(_meet(one, other) for one, other in itertools.combinations(boxes, 2))
    assert named[0][0] is points[0]


def test_an_axis_of_bytes_has_no_number_below_zero() -> None:
    points = [
        ScatterPoint("single", 0.5, 0.0, True),
        ScatterPoint("ssp × 2", 0.3, 15e6, True),
        ScatterPoint("ssp × 4", 0.4, 35e6, False),
    ]
    written = re.findall(r">([^<>]+)</text>", scatter("bytes", points, SECONDS, BYTES).still)
    assert "0" in written
    assert not any(each[0] in "-−" for each in written)
