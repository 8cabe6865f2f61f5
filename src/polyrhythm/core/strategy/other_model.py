"""A check that a checkpoint is of the model that is to be resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyrhythm.errors import CheckpointError

Shapes = Mapping[str, Sequence[int]]


def refuse_other_model(written: Shapes, shapes: Shapes) -> None:
    """Raise CheckpointError unless the parameters have the same names and `shapes`, in the same order, as those `written`."""
    if list(written.items()) == list(shapes.items()):
        return
    names = [name for name in (*shapes, *written) if shapes.get(name) != written.get(name)]
    raise CheckpointError(
        f"The checkpoint is of another model: {names[0] if names else 'the order of parameters'} differs. Resume with the training "
        "function that wrote it."
    )
