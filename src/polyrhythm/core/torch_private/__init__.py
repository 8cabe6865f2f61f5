"""Private names of torch that the library uses, each in one function that says why: torch does not promise to keep them.

Modules of all layers call these. All exist from torch 2.5 on, the oldest that is supported; tests/test_torch_private.py has a test of each,
which fails with a sentence when a new torch has dropped one.
"""
