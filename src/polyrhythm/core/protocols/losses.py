"""Where a topology's coroutines receive that an actor was lost."""

GONE = "gone"
"""The topic; the text of a message is the actor's name. (`strategy.losses` sends them.)"""
