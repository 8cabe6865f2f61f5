"""What was found of an object is found again when the object, or how many there are, has changed."""

from __future__ import annotations

from polyrhythm.tools.scheduling.kubernetes.remembering import Remembering


def test_it_is_found_once_for_the_same_objects_and_again_for_equal_ones() -> None:
    asked: list[tuple[object, ...]] = []

    def find(*inputs: object) -> int:
        asked.append(inputs)
        return len(asked)

    remembering, first, equal = Remembering(find), {"a": 1}, {"a": 1}
    assert [remembering.of("x", first) for _ in range(3)] == [1, 1, 1]
    assert remembering.of("y", first) == 2  # another key
    assert remembering.of("x", equal) == 3
    assert remembering.of("x", equal, first) == 4
    assert remembering.of("x", equal) == 5
