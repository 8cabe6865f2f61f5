"""A worker's side of each kind of payload: what it does at a step with its gradients, updates or weights."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.payloads.factors import FactorsPayload
from polyrhythm.core.strategy.payloads.gradients import GradientPayload
from polyrhythm.core.strategy.payloads.protocol import PayloadOfPart
from polyrhythm.core.strategy.payloads.rows import RowsPayload
from polyrhythm.core.strategy.payloads.shared_writes import SharedWritesPayload
from polyrhythm.core.strategy.payloads.updates import UpdatePayload
from polyrhythm.core.strategy.payloads.weights import WeightsPayload

PAYLOADS: Mapping[Payload, type[PayloadOfPart]] = {
    Payload.GRADIENT: GradientPayload,
    Payload.UPDATE: UpdatePayload,
    Payload.WEIGHTS: WeightsPayload,
    Payload.FACTORS: FactorsPayload,
    Payload.ROWS: RowsPayload,
    Payload.NOTHING: SharedWritesPayload,
}

__all__ = ["PAYLOADS", "PayloadOfPart"]
