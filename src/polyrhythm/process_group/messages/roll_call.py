"""`monitored_barrier`: everybody reports to rank 0, which names those who do not come in time.

Scripts look for the words that gloo has in its errors.
"""

from __future__ import annotations

from polyrhythm.core.kernel.message import Message
from polyrhythm.errors import RunError
from polyrhythm.process_group.messages.party import Party


async def roll_call(party: Party, seconds: float, all_ranks: bool) -> None:
    """Return at all members when all have come. Raises RunError where somebody has not; with `all_ranks` rank 0 names all of them."""
    port, topic = party.port, f"{party.topic}/roll"
    if party.rank:
        await port.send(party.members[0], Message(f"{topic}/{party.rank}"))
        answer = await port.receive(f"{topic}/go", party.members[0], seconds)
        if answer is None or answer.message.text:
            raise RunError(
                f"Rank {party.rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: "
                f"{answer.message.text if answer else 'rank 0 has not come'} ({party.call.where})"
            )
        return
    missing, deadline = [], port.now() + seconds
    for rank in range(1, party.size):
        if deadline <= port.now() and not all_ranks:
            raise RunError(
                f"Rank 0 timed out in monitoredBarrier after {1000 * seconds:g} ms: give it a longer timeout ({party.call.where})."
            )
        come = await port.receive(f"{topic}/{rank}", party.members[rank], max(0.0, deadline - port.now()))
        if come is None:
            missing.append(rank)
            if not all_ranks:
                break
    text = ""
    if missing:
        ranks = f"Ranks {', '.join(map(str, missing))}" if all_ranks else f"Rank {missing[0]}"
        text = f"{ranks} failed to pass monitoredBarrier in {1000 * seconds:g} ms: look for what it does instead."
    for rank in range(1, party.size):
        await port.send(party.members[rank], Message(f"{topic}/go", text=text))
    if missing:
        raise RunError(f"{text} ({party.call.where})")
