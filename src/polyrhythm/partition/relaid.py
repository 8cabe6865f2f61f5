"""The state of a replica in other parts: what workers of one mesh have written, for a worker of another.

Vectors of weights, and of what an exchange or an optimizer keeps for each weight, are put together by names and places, and cut anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.protocols.partition import follows_owner
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.placement import placement_of

Get = Callable[[StateTree], Any]


def held(replica: Replica) -> StateTree:
    """What a worker has of a replica, by name and piece, in the order of its exported state: by exchange, others, in the optimizer."""
    names = {id(parameter): name for name, parameter in replica.model.named_parameters()}
    others = {id(tensor): name for name, tensor in (*replica.model.named_parameters(), *replica.model.named_buffers())}
    every = (each for each in (*replica.model.parameters(), *replica.model.buffers()) if id(each) not in replica.trained and each.numel())
    kept = [each for each in every if not follows_owner(each)]
    stepped = [each for group in replica.optimizer.param_groups for each in group["params"]]
    return {
        "parts": [[_held(names[id(each)], each) for each in part.local.parameters.parameters] for part in replica.parts],
        "others": [_held(others[id(each)], each) for each in kept],
        "optimizer": [_held(names[id(each)], each) for each in stepped],
    }


def _held(name: str, tensor: Tensor) -> StateTree:
    """A copy of a tied weight has the name of its owner, which other meshes may have alone."""
    piece, name = placement_of(tensor).piece, placement_of(tensor).copy_of or name
    return [name, list(piece.whole), [[list(span) for span in spans] for spans in piece.spans]]


def _piece(entry: Any) -> Piece:
    return Piece(tuple(entry[1]), tuple(tuple(tuple(span) for span in spans) for spans in entry[2]))


def relaid(replica: Replica, former: Sequence[tuple[StateTree, StateTree]]) -> StateTree:
    """The state of `replica`, as its worker would have exported it, from states of `former` workers and what each of them held.

    Raises CheckpointError for a state that is not by weights, such as a residual of low rank.
    """
    own, first = held(replica), former[0][0]
    parts = [_part(number, own["parts"][number], part.local.shapes, former) for number, part in enumerate(replica.parts)]
    others = [_whole(entry, _entries(former, "others", lambda state: state["others"])) for entry in own["others"]]
    return {**first, "parts": parts, "others": others, "optimizer": _optimizer(replica, own["optimizer"], former)}


def _part(number: int, entries: Any, shapes: StateTree, former: Sequence[tuple[StateTree, StateTree]]) -> StateTree:
    """The state of an exchange: that of the former one which had the first weight, with its vectors made anew."""
    state, at = next(
        (state, at) for state, known in former for at, part in enumerate(known["parts"]) if any(entry[0] == entries[0][0] for entry in part)
    )
    known = next(known for other, known in former if other is state)
    length = sum(_piece(entry).numel for entry in known["parts"][at])

    def walked(tree: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(tree, Tensor):
            return _vector(tree, path, length, entries, former)
        if isinstance(tree, Mapping):
            return {key: walked(each, (*path, key)) for key, each in tree.items()}
        if isinstance(tree, list | tuple):
            return [walked(each, (*path, place)) for place, each in enumerate(tree)]
        return tree

    return {**walked({key: each for key, each in state["parts"][at].items() if key != "layout"}, ()), "layout": shapes}


def _vector(tree: Tensor, path: tuple[Any, ...], length: int, entries: Any, former: Sequence[tuple[StateTree, StateTree]]) -> Tensor:
    if tree.dim() != 1 or tree.numel() != length:
        if tree.numel() == 1:
            return tree
        raise CheckpointError(
            f"{'/'.join(map(str, path))} has a tensor {tuple(tree.shape)} that is no number for each weight, and cannot be divided anew: "
            "resume on the mesh that wrote the checkpoint."
        )

    def get(state: StateTree) -> list[Any]:
        return [_at(part, path) for part in state["parts"]]

    found: dict[str, list[tuple[Piece, Tensor]]] = {}
    for state, known in former:
        for vector, part in zip(get(state), known["parts"], strict=True):
            if vector is not None:
                pieces = [_piece(entry) for entry in part]
                for entry, piece, value in zip(part, pieces, torch.split(vector, [each.numel for each in pieces]), strict=True):
                    found.setdefault(entry[0], []).append((piece, value))
    return torch.cat([_whole(entry, found).reshape(-1) for entry in entries])


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        if tree is None:
            return None
        tree = tree[key]
    return tree


def _entries(former: Sequence[tuple[StateTree, StateTree]], what: str, get: Get) -> dict[str, list[tuple[Piece, Tensor]]]:
    found: dict[str, list[tuple[Piece, Tensor]]] = {}
    for state, known in former:
        for entry, value in zip(known[what], get(state), strict=True):
            if value is not None:
                found.setdefault(entry[0], []).append((_piece(entry), value))
    return found


def _whole(entry: Any, found: Mapping[str, list[tuple[Piece, Tensor]]]) -> Tensor:
    """The piece of `entry`, from the pieces that were `found` of the tensor of its name."""
    name, piece = entry[0], _piece(entry)
    if name not in found:
        raise CheckpointError(f"The checkpoint has nothing of {name}: resume it with the model that wrote it.")
    whole = torch.empty(found[name][0][0].whole, dtype=found[name][0][1].dtype)
    for each, value in found[name]:
        each.put(value.view(each.shape), whole)
    return piece.take(whole.view(piece.whole))


def _optimizer(replica: Replica, entries: Any, former: Sequence[tuple[StateTree, StateTree]]) -> StateTree:
    """The optimizer's state by name: tensors of a weight's shape are divided as it is, others are the same for all pieces."""
    own: Any = replica.optimizer.state_dict()
    before = former[0][0]["optimizer"]
    groups = [{**old, "params": new["params"]} for new, old in zip(own["param_groups"], before["param_groups"], strict=True)]
    states: dict[Any, Any] = {}
    for place, entry in enumerate(entries):
        keys = [key for state, known in former for key in _state_of(state, known, entry[0])]
        if keys:
            states[place] = {key: _kept(key, entry, former) for key in dict.fromkeys(keys)}
    return {"state": states, "param_groups": groups}


def _state_of(state: StateTree, known: StateTree, name: str) -> dict[Any, Any]:
    """The optimizer's state of the weight of that name, at a worker that may not have it."""
    for place, entry in enumerate(known["optimizer"]):
        if entry[0] == name:
            found: dict[Any, Any] = state["optimizer"]["state"].get(place, {})
            return found
    return {}


def _kept(key: Any, entry: Any, former: Sequence[tuple[StateTree, StateTree]]) -> Any:
    found: dict[str, list[tuple[Piece, Tensor]]] = {}
    value: Any = None
    for state, known in former:
        for other in known["optimizer"]:
            if other[0] == entry[0] and key in (kept := _state_of(state, known, entry[0])):
                value, piece = kept[key], _piece(other)
                if isinstance(value, Tensor) and value.dim() and tuple(value.shape) == piece.shape:
                    found.setdefault(entry[0], []).append((piece, value))
    return _whole(entry, found) if found else value
