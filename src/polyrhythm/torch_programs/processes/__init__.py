"""Ranks as processes of their own, under the scheduler of this one: the second carrier, by which the threads are checked.

The scheduler, the network and the stores stay in this process. That of a rank has its program and its coroutines, and one of the two
processes waits for the other at any time: `RankHandle` is a rank as this process sees it, `attend` does here what it asks for, and `kernel`
is the thread of the rank's process in which its coroutines are continued.
"""
