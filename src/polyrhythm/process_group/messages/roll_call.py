"""`monitored_barrier`: everybody reports to rank 0, which names those who do not come in time."""

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
            raise RunError(f"monitored_barrier at {party.call.where}: {answer.message.text if answer else 'rank 0 has not come'}")
        return
    missing, deadline = [], port.now() + seconds
    for rank in range(1, party.size):
        come = await port.receive(f"{topic}/{rank}", party.members[rank], max(0.0, deadline - port.now()))
        if come is None:
            missing.append(rank)
            if not all_ranks:
                break
    text = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} did not come within {seconds:g} s" if missing else ""
    for rank in range(1, party.size):
        await port.send(party.members[rank], Message(f"{topic}/go", text=text))
    if missing:
        raise RunError(f"monitored_barrier at {party.call.where}: {text}")
