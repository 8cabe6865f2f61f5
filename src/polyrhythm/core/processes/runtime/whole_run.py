"""Events of one actor, with what is known only where all actors report: the bytes that all have sent."""

from __future__ import annotations

import msgspec

from polyrhythm.core.kernel.events import AnyEvent, Evaluated, Reported


def of_whole_run(event: AnyEvent, own: int, total: int) -> AnyEvent:
    """`event` of an actor that has sent `own` bytes, where all together have sent `total`."""
    if isinstance(event, Reported):
        return msgspec.structs.replace(event, bytes_sent=total)
    if isinstance(event, Evaluated):  # of the past, when its worker had sent a part of what it has sent now
        return msgspec.structs.replace(event, bytes_sent=round(event.bytes_sent / max(own, 1) * total))
    return event
