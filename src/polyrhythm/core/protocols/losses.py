"""The topic on which a topology's coroutines receive notices of lost actors.

`strategy.losses` sends them, at workers and at servers; topologies and tables receive them.
"""

GONE = "gone"
"""The topic; the text of a message is the actor's name."""
