import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.trees import separate, unite
from polyrhythm.errors import CompositionError

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
KEYS = st.one_of(st.text(max_size=5), st.integers(-5, 5), st.sampled_from(["tensor", "tuple", "float", "pairs"]))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


@given(TREES)
def test_a_tree_comes_back_as_it_was(tree: object) -> None:
    assert repr(unite(*separate(tree))) == repr(tree)


def test_tensors_come_back_by_their_place_with_type_and_shape() -> None:
    tree = {"a": [torch.arange(3), {"b": torch.tensor(2.5, dtype=torch.float64)}], 7: (torch.ones(0), -0.0)}
    text, tensors = separate(tree)
    assert sorted(tensors) == ["7/0", "a/0", "a/1/b"]
    back = unite(text, tensors)
    assert torch.equal(back["a"][0], torch.arange(3))
    assert back["a"][1]["b"].dtype is torch.float64
    assert back[7][0].shape == (0,)
    assert math.copysign(1, back[7][1]) == -1


def test_tensors_whose_places_read_alike_are_kept_apart() -> None:
    tree = {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}, 1: torch.full((1,), 2.0), "1": torch.full((1,), 3.0)}
    back = unite(*separate(tree))
    assert [back["a/b"].item(), back["a"]["b"].item(), back[1].item(), back["1"].item()] == [0, 1, 2, 3]


def test_what_was_separated_does_not_change_with_the_original() -> None:
    weights = torch.zeros(2)
    _, tensors = separate({"w": weights})
    weights += 1
    assert tensors["w"].tolist() == [0, 0]


def test_other_values_are_refused_with_their_place() -> None:
    with pytest.raises(CompositionError, match=r"a/1 contains \{1\}, a set, which a checkpoint cannot"):
        separate({"a": [0, {1}]})
    with pytest.raises(CompositionError, match="keys in a checkpoint must be text or integers"):
        separate({(1, 2): 0})
