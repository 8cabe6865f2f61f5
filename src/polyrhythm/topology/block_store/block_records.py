"""Messages between workers, the slices of a block store and its driver, as records; on the wire they are a message's numbers."""

from __future__ import annotations

from typing import NamedTuple

from polyrhythm.topology.servers.server_records import Done, Drain, Wake

REQUESTS, BLOCKS = "block", "blocks"
"""The topics of all messages to a slice, and of all messages to a worker."""


class Begin(NamedTuple):
    """A worker begins. That of worker 0 has the `ShardRecipe` as text, and the slice's weights."""


class Gradient(NamedTuple):
    """A worker's gradient of `step`, encoded; `rates` are its learning rates."""

    step: int
    rates: tuple[float, ...]


class SlicePublished(NamedTuple):
    """The slice's weights after `step`, and the optimizer's state, which is the text and all tensors but the first."""

    step: int


class Stored(NamedTuple):
    """To the driver: a slice has a worker's gradient of `step`; the text is the worker's name."""

    step: int


class Reduce(NamedTuple):
    """From the driver: the gradients of `step` are complete; the text are the names of their workers, by spaces."""

    step: int


BlockRequest = Begin | Gradient | SlicePublished | Stored | Reduce | Drain | Done | Wake
_KINDS: tuple[type[BlockRequest], ...] = (Begin, Gradient, SlicePublished, Stored, Reduce, Drain, Done, Wake)
"""A kind's place is the first number of its messages."""


def to_numbers(request: BlockRequest) -> tuple[float, ...]:
    """The kind, then the fields in order, a gradient's rates last."""
    *fields, rates = request if isinstance(request, Gradient) else (*request, ())
    return (float(_KINDS.index(type(request))), *map(float, fields), *rates)


def from_numbers(numbers: tuple[float, ...]) -> BlockRequest:
    """The request whose `to_numbers` these are."""
    kind, fields = _KINDS[int(numbers[0])], numbers[1:]
    if kind is Gradient:
        return Gradient(int(fields[0]), tuple(fields[1:]))
    return kind(*map(int, fields))  # type: ignore[arg-type]  # all others have whole numbers only


class Weights(NamedTuple):
    """To a worker: the slice's weights after `step`, which are the tensor."""

    slice: int
    step: int


class TaskBlocks(NamedTuple):
    """To a worker: the blocks from which the weights of a slice after `step` are made.

    `ranks` are those of the workers whose gradients they are, `rates` the learning rates of each. `held` is how many tensors come first
    that are the weights and the state before the step, whose text is the message's; none where the worker has published these itself.
    """

    slice: int
    step: int
    held: int
    ranks: tuple[int, ...]
    rates: tuple[tuple[float, ...], ...]


def to_worker(block: Weights | TaskBlocks) -> tuple[float, ...]:
    """The fields in order; of a task the number of ranks before them."""
    if isinstance(block, Weights):
        return tuple(map(float, block))
    flat = [rate for rates in block.rates for rate in rates]
    return (float(block.slice), float(block.step), float(block.held), float(len(block.ranks)), *map(float, block.ranks), *flat)


def from_store(numbers: tuple[float, ...]) -> Weights | TaskBlocks:
    """The block whose `to_worker` these are."""
    if len(numbers) == len(Weights._fields):
        return Weights(int(numbers[0]), int(numbers[1]))
    number, step, held, count = map(int, numbers[:4])
    ranks, flat = tuple(map(int, numbers[4 : 4 + count])), numbers[4 + count :]
    width = len(flat) // count
    return TaskBlocks(number, step, held, ranks, tuple(tuple(flat[k * width : (k + 1) * width]) for k in range(count)))
