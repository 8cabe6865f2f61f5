"""Tensor parallelism: the products of one module are divided among ranks that see the same samples."""

from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.cube import Cube
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace, PlacedDropout
from polyrhythm.partition.tensor_parallel.heads import Heads
from polyrhythm.partition.tensor_parallel.summa import Summa
from polyrhythm.partition.tensor_parallel.tesseract import Tesseract
from polyrhythm.partition.tensor_parallel.vocabulary import Vocabulary, vocabulary_cross_entropy
from polyrhythm.partition.tensor_parallel.wavefront import Wavefront

__all__ = [
    "Columns",
    "Cube",
    "DropByPlace",
    "Heads",
    "PlacedDropout",
    "Rows",
    "Summa",
    "Tesseract",
    "Vocabulary",
    "Wavefront",
    "vocabulary_cross_entropy",
]
