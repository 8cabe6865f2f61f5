"""Dropout on the tokens of one rank, with the mask of one device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence.tokens import Tokens
from polyrhythm.partition.tensor_parallel.dropout import PlacedDropout


@dataclass(frozen=True, slots=True)
class TokenDropout:
    """Drop elements of an `nn.Dropout` by their places in activations whose tokens are divided along `dim`.

    One device drops the same with `DropByPlace()`, which draws by places too.
    """

    tokens: Tokens
    dim: int = 1

    @property
    def along(self) -> tuple[str, ...]:
        return (self.tokens.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Dropout):
            return f"TokenDropout is for nn.Dropout, and this is {type(module).__name__}: name dropouts."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Dropout)
        axis = place.axis(self.tokens.axis)
        own = self.tokens.spans(axis.size)[axis.index]

        def place_of(value: Tensor) -> Piece:
            whole = [*value.shape]
            whole[self.dim] = self.tokens.length
            return Piece.all_of(whole).on(self.dim % value.dim(), *own)

        return PlacedDropout(module.p, name, place.seed, place_of).train(module.training)
