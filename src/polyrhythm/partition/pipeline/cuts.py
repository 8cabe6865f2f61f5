"""Sends and receives the values that cross a pipeline's cuts, as its boundary writes them."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from polyrhythm.partition.pipeline.actions import Actions, StageGrid, StageMessage
from polyrhythm.partition.pipeline.batch import Batch
from polyrhythm.partition.pipeline.boundary import Boundary, Encoding
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.values import Outline, gradients_of, tensors_of, wanted_gradients


class Cuts:
    """The cuts of the stages of `rank`; cut c is between the stages c and c + 1."""

    def __init__(self, grid: StageGrid, rank: int, mail: Mail, boundary: Boundary, seed: int) -> None:
        self._grid, self._rank, self.mail = grid, rank, mail
        after = [cut for cut in range(grid.stages - 1) if grid.rank(cut) == rank]
        before = [cut for cut in range(grid.stages - 1) if grid.rank(cut + 1) == rank]
        self.values_out: dict[int, Encoding] = {cut: boundary.activations(cut, seed) for cut in after}
        self.values_in: dict[int, Encoding] = {cut: boundary.activations(cut, seed) for cut in before}
        self.gradients_out: dict[int, Encoding] = {cut: boundary.gradients(cut, seed) for cut in before}
        self.gradients_in: dict[int, Encoding] = {cut: boundary.gradients(cut, seed) for cut in after}

    def errors(self) -> dict[str, float]:
        """The relative squared errors of what this rank has sent over each cut in the last training step."""
        found = {f"activations over cut {cut}": each.error() for cut, each in self.values_out.items()}
        return found | {f"gradients over cut {cut}": each.error() for cut, each in self.gradients_out.items()}

    @property
    def kept(self) -> int:
        """The bytes that boundaries remember at this rank."""
        ends = (self.values_out, self.values_in, self.gradients_out, self.gradients_in)
        return sum(each.kept for encodings in ends for each in encodings.values())

    def expect(self, batch: Batch, source: int, actions: Actions) -> None:
        """Note what another rank will send to this one in these actions for micro-batches of `batch`."""
        for action in actions:
            for message in self._grid.sent(source, action):
                if self._grid.rank(message.stage) == self._rank:
                    receive = self._receive_gradient if message.gradient else self._receive_value
                    self.mail.expect((batch.kind, batch.number, message), source, partial(receive, batch, message))

    def send_value(self, batch: Batch, micro: int, stage: int, value: Any) -> None:
        """Send what `stage` made to the stage after it."""
        message, target = StageMessage(stage + 1, micro), self._grid.rank(stage + 1)
        self.mail.tell((stage + 1, batch.signature(micro)), value, target)
        wires = self.values_out[stage].pack(tensors_of(value), batch.crossing(micro))
        self.mail.send((batch.kind, batch.number, message), wires, target)

    def take_value(self, batch: Batch, micro: int, stage: int) -> Any:
        """What the stage before `stage` made."""
        source = self._grid.rank(stage - 1)
        wires = self.mail.take((batch.kind, batch.number, StageMessage(stage, micro)), source)
        outline = self.mail.outline((stage, batch.signature(micro)), source)
        tensors = self.values_in[stage - 1].unpack(wires, outline, batch.crossing(micro))
        return tensors[0] if outline.bare else tensors

    def _receive_value(self, batch: Batch, message: StageMessage) -> tuple[Tensor, ...]:
        source = self._grid.rank(message.stage - 1)
        outline = self.mail.outline((message.stage, batch.signature(message.micro)), source)
        return self.mail.receive(source, self.values_in[message.stage - 1].wires(outline, batch.crossing(message.micro)))

    def send_gradient(self, batch: Batch, micro: int, stage: int, inputs: tuple[Tensor, ...]) -> None:
        """Send the gradients of the inputs of `stage` to the stage before it; what has none gets zeros."""
        wires = self.gradients_out[stage - 1].pack(wanted_gradients(inputs), batch.crossing(micro))
        self.mail.send((batch.kind, batch.number, StageMessage(stage - 1, micro, gradient=True)), wires, self._grid.rank(stage - 1))

    def take_gradient(self, batch: Batch, micro: int, stage: int) -> tuple[Tensor, ...]:
        """The gradients of the outputs of `stage` that can have any."""
        message = StageMessage(stage, micro, gradient=True)
        wires = self.mail.take((batch.kind, batch.number, message), self._grid.rank(stage + 1))
        return self.gradients_in[stage].unpack(wires, self._of_gradients(batch, message), batch.crossing(micro))

    def _receive_gradient(self, batch: Batch, message: StageMessage) -> tuple[Tensor, ...]:
        wires = self.gradients_in[message.stage].wires(self._of_gradients(batch, message), batch.crossing(message.micro))
        return self.mail.receive(self._grid.rank(message.stage + 1), wires)

    def _of_gradients(self, batch: Batch, message: StageMessage) -> Outline:
        source = self._grid.rank(message.stage + 1)
        return gradients_of(self.mail.outline((message.stage + 1, batch.signature(message.micro)), source))
