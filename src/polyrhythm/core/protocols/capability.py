"""Capabilities: what a topology can do for the other pieces of an exchange, and what these need.

A topology's traits list those that it provides, and every piece's those that it requires. `strategy.fit` compares the two; plans and parts
ask for a capability where they depend on one. None of them names a topology.
"""

from __future__ import annotations

from enum import Enum


class Capability(Enum):
    """Something that a piece may need, as the end of the sentence "it needs …". The first of several that are missing is named."""

    SERVER = "a server that holds the weights"
    COLLECTIVES = "sums and gathers in which all workers take part"
    EVERY_PEER = "the contributions of every other worker, which each worker merges by itself"
    MIXING = "vectors that neighbours mix"
    SYMMETRIC = "mixing by one symmetric matrix, the same in every exchange"
    DIFFERENCES = "differences of weights to what the receivers have, in which all is that was not sent before"
    WAITING = "a point at which workers wait for each other"
    CLOCKS = "the number of steps that each of the other workers has taken"
    ONE_SIDED = "exchanges for which no other worker need be waiting"
    PACKETS = "packets that receivers decode one by one"
    VALUES = "values that are decoded and merged before they change weights"
    SUMS = "sums, element by element"
    MERGING = "contributions that a merge may combine as it likes"
    SAMPLES = "each worker's contribution by itself, with its number of samples"
    LAYERS = "whole layers where they are merged"
    AT_WORKERS = "weights of single other workers, which each worker merges by itself"
    VERSIONS = "one sequence of merges that all workers see"
    MEAN = "the mean of what all workers did since the last exchange"
    TOTALS = "a merge of the sum of all workers' weights"
    EQUAL_WEIGHTS = "equal weights at all workers after each exchange"
    HELD_ELSEWHERE = "weights that others than the workers hold from the beginning: servers, hubs, shared memory, streams"
    OWN_WEIGHTS = "exchanges that count from the weights that each worker has at its step, whoever wrote them"
    SHARED_MEMORY = "memory of one host that all workers share"
