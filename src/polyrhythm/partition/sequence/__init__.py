"""Sequence parallelism: the tokens of one sequence are divided among ranks."""

from polyrhythm.partition.sequence.all_to_all import AllToAllAttention
from polyrhythm.partition.sequence.attention import DotProductAttention
from polyrhythm.partition.sequence.dropout import TokenDropout
from polyrhythm.partition.sequence.edges import TokenColumns, Tokenwise, TokenRows
from polyrhythm.partition.sequence.ring import RingAttention, ring_attention
from polyrhythm.partition.sequence.rows_of_scores import RingSelfAttention
from polyrhythm.partition.sequence.tokens import Consecutive, HeadTail, Tokens, mean_over

__all__ = [
    "AllToAllAttention",
    "Consecutive",
    "DotProductAttention",
    "HeadTail",
    "RingAttention",
    "RingSelfAttention",
    "TokenColumns",
    "TokenDropout",
    "TokenRows",
    "Tokens",
    "Tokenwise",
    "mean_over",
    "ring_attention",
]
