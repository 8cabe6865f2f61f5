"""The messages of a whole batch: between workers, the server that deals portions, and the servers that hold vectors."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

REQUESTS, DEALT = "ask", "dealt"
"""The topics of all requests to servers, so that those of one sender are in order, and of the dealer's answers."""


class Ask(IntEnum):
    """The kinds of requests; the number that a request begins with. NEXT to STEP are to the dealer, which is the first server."""

    ORDERS = 0
    """of the coordinator: orders follow; the text has the contributions that are gathered"""
    FETCH = 1
    """the weights of an evaluation, as soon as they are published"""
    PUSH = 2
    """a sum for an evaluation, with its number"""
    RESULT = 3
    """the weights after a step, as soon as they are settled"""
    DONE = 4
    """the worker asks for nothing more"""
    DRAIN = 5
    """the worker asks for nothing until the state after a step is written"""
    BEGIN = 6
    """of the coordinator: an evaluation begins"""
    NEXT = 7
    """the worker has nothing to do in a step until an evaluation after this number begins, or the step is over"""
    PORTION = 8
    """a portion of an evaluation: with the one that was done, and its loss"""
    HAVE = 9
    """of a server: it has the sum of that number of the worker in the text, for an evaluation"""
    STEP = 10
    """of the coordinator: a step is over, with its loss"""
    NOTE = 11
    """of the coordinator, in a crew that may change: what it is after the step that it settles next, with the loss"""
    STEPS = 12
    """of the coordinator, after a change: the last evaluation that a server knows of, and the steps to which it can return"""
    RETURN = 13
    """of the coordinator, after a change: return to that step; the answer is what the coordinator was then"""


class Reply(IntEnum):
    """The kinds of the dealer's answers."""

    EVALUATE = 0
    """an evaluation has begun: its number"""
    STEP_OVER = 1
    """the step is over: its loss"""
    DEAL = 2
    """a deal"""
    EVALUATED = 3
    """an evaluation is over: its loss; the text has the contributions to it"""


class Answer(NamedTuple):
    """An answer of the dealer: its numbers and text, by its kind."""

    kind: Reply
    numbers: tuple[float, ...]
    text: str
