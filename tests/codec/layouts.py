"""Layouts and seeds that hypothesis draws for the laws of codecs."""

from __future__ import annotations

from hypothesis import strategies as st

from polyrhythm.core.tensors import Layout

shapes = st.lists(st.one_of(st.tuples(), st.tuples(st.integers(0, 9)), st.tuples(st.integers(0, 5), st.integers(0, 7))), max_size=4)
layouts = shapes.map(lambda given: Layout(tuple(f"p{k}" for k in range(len(given))), tuple(given)))
seeds = st.integers(0, 2**20)
