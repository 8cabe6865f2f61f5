"""How well senses that were found fit those that were planted."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from polyrhythm.workloads.topics.sense_mixture import SenseVectors
from polyrhythm.workloads.topics.two_senses import PlantedSenses

_NEIGHBOURS = 10
_USED = 0.1
"""The share of a word's occurrences that a sense has at least, if it is one."""


def purity(words: Tensor, found: Tensor, planted: Tensor) -> float:
    """The share of occurrences (n,) whose planted sense is the most frequent one of those that were found to be of the same sense.

    A single sense has the share of the more frequent one, about one half. Senses of different words are never the same.
    """
    of_sense = torch.unique(torch.stack([words, found]), dim=1, return_inverse=True)[1]
    width = int(planted.max()) + 1
    counts = torch.bincount(of_sense * width + planted, minlength=width * (int(of_sense.max()) + 1))
    return float(counts.view(-1, width).max(dim=1).values.sum()) / len(words)


def minor_neighbours(vectors: SenseVectors, text: PlantedSenses) -> float:
    """The share of the rarer topic among the 10 nearest words of each sense of planted words, on average; 0.5 is a perfect mixture.

    The nearest are the words of the planted word's two topics that the sense predicts best around it. Senses with less than a tenth of a
    word's occurrences are left out.
    """
    contexts = torch.from_numpy(text.contexts)
    shares = normalize(vectors.counts + 1e-9, p=1, dim=1)  # before anything was counted all senses are alike
    found = []
    for k, pair in enumerate(torch.from_numpy(text.pairs)):
        candidates = torch.isin(contexts, pair).nonzero().flatten()
        for sense in (shares[text.first + k] >= _USED).nonzero().flatten():
            near = (vectors.contexts[candidates] @ vectors.senses[text.first + k, sense]).topk(min(_NEIGHBOURS, len(candidates)))
            ones = (contexts[candidates[near.indices]] == pair[0]).float().mean()
            found.append(torch.minimum(ones, 1 - ones))
    return float(torch.stack(found).mean())
