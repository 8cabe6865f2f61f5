"""The local step that the payloads of updates and weights have in common: the worker's own optimizer steps first."""

from __future__ import annotations

from polyrhythm.core.strategy.payloads.protocol import ExchangingPart


def step_locally(part: ExchangingPart) -> None:
    """Take the local step, with the exchanges inside the worker's group before and after it, if there are any."""
    part.average_gradients()
    part.correct_gradients()
    part.optimizer.clip()
    part.optimizer.step()
    part.average_updates()


def exchanges_now(part: ExchangingPart) -> bool:
    """True if the consistency has an exchange after the step that was taken last."""
    return part.agreement.consistency.exchanges(part.state.context)
