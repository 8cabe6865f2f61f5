"""Steps of a replica's parts on merged gradients that wait for each other, since they are clipped by the norm of all together."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.kernel.job import WorkerContext


class ClippedTogether:
    """The steps of one replica. `clip` scales the gradients of all of its parts to a norm, and may communicate with other workers.

    A part of a model by itself clips by its own norm. Where a partition divides the model, each way of being divided is a part of its own,
    and the norm is that of the whole model's gradient.
    """

    def __init__(self, clip: Callable[[float], object], context: WorkerContext) -> None:
        self._clip, self._context = clip, context
        self._held: list[tuple[Callable[[], None], float]] = []

    def hold(self, step: Callable[[], None], norm: float) -> None:
        """Keep the `step` of a part, whose merged gradient its parameters have, until all are clipped to `norm`."""
        self._held.append((step, norm))

    def take(self) -> None:
        """The exchanges of all parts are made: clip, and take the steps that were kept."""
        held, self._held = self._held, []
        for _, norm in held[:1]:
            self._clip(norm)
        for step, _ in held:
            self._context.counted(step)
