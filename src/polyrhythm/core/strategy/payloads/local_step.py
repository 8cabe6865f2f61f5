"""What updates and weights have in common: the worker's own optimizer steps first."""

from __future__ import annotations

from polyrhythm.core.strategy.payloads.protocol import ExchangingPart


def step_locally(part: ExchangingPart) -> None:
    """Take the step, with the gradients of the worker's group and what that agrees on afterwards, where it has exchanges of its own."""
    part.average_gradients()
    part.correct_gradients()
    part.optimizer.clip()
    part.optimizer.step()
    part.average_updates()


def exchanges_now(part: ExchangingPart) -> bool:
    """Whether the consistency has an exchange after the step that was taken last."""
    return part.agreement.consistency.exchanges(part.state.context)
