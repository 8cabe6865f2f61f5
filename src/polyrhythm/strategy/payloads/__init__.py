"""What a worker does at a step with what it has computed, for each kind of payload."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.pieces.traits import Payload
from polyrhythm.strategy.payloads.factors import FactorsPayload
from polyrhythm.strategy.payloads.gradients import GradientPayload
from polyrhythm.strategy.payloads.protocol import PayloadOfPart, PendingExchange
from polyrhythm.strategy.payloads.rows import RowsPayload
from polyrhythm.strategy.payloads.shared_writes import SharedWritesPayload
from polyrhythm.strategy.payloads.updates import UpdatePayload
from polyrhythm.strategy.payloads.weights import WeightsPayload

PAYLOADS: Mapping[Payload, type[PayloadOfPart]] = {
    Payload.GRADIENT: GradientPayload,
    Payload.UPDATE: UpdatePayload,
    Payload.WEIGHTS: WeightsPayload,
    Payload.FACTORS: FactorsPayload,
    Payload.ROWS: RowsPayload,
    Payload.NOTHING: SharedWritesPayload,
}

__all__ = ["PAYLOADS", "PayloadOfPart", "PendingExchange"]
